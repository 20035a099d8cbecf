"""`gpuforge images`: list, build, check."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from image_samples import BOOKWORM, MemoryImages, reference, without_engine

from gpuforge.cli import images as command
from gpuforge.cli.main import run
from gpuforge.cli.options import Call
from gpuforge.containers import catalog
from gpuforge.containers.images import EngineImage

# What the probe's shell writes where there is no Python.
OLD = '{"machine": "x86_64", "glibc": "2.31", "compilers": [], "pythons": [], "toolkits": {}, "path": "/bin"}'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path / "cache"))


def call(images: MemoryImages, *arguments: str) -> Result:
    return CliRunner().invoke(command.command, arguments, obj=Call(images=images))


def test_the_list_shows_what_each_image_is_for_and_which_are_here():
    images = MemoryImages({reference("bookworm"): EngineImage("sha256:0", 612_000_000)})
    lines = call(images, "list").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines[1:] if line}
    assert rows["bookworm"] == [
        "bookworm", "builds", "2.36", "3.11", "3.13", "g++-12", "g++-11", "612", "MB", reference("bookworm"),
    ]  # fmt: skip
    assert rows["trixie-test"] == [
        "trixie-test",
        "tests",
        "2.41",
        "3.11",
        "3.13",
        "3.13t",
        "no",
        reference("trixie-test"),
    ]
    assert lines[-1].startswith(
        "checked by a linter only, never run by gpuforge's developers: manylinux_2_28, "
    )


def test_the_list_as_json_has_every_fact():
    images = MemoryImages({reference("bookworm"): EngineImage("sha256:77", 612_000_000)})
    data = json.loads(call(images, "list", "--json").stdout)
    assert (data["schema"], data["engine"]) == (1, True)
    entries = {entry["name"]: entry for entry in data["images"]}
    assert list(entries) == [image.name for image in catalog.images()]
    assert entries["bookworm"]["here"]
    assert entries["bookworm"]["size"] == 612_000_000
    assert entries["bookworm"]["id"] == "sha256:77"
    assert entries["bookworm"]["test"] == "bookworm-test"
    assert not entries["trixie"]["here"]


@pytest.mark.thorough
def test_the_list_needs_no_engine(tmp_path):
    done = without_engine(tmp_path, "list")
    assert done.returncode == 0
    assert "trixie" in done.stdout
    assert " ? " in done.stdout
    assert done.stderr.startswith("cannot list the images of this machine: ")


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["build", "check"])
def test_the_rest_without_an_engine_is_one_clear_error(tmp_path, verb):
    done = without_engine(tmp_path, verb, "bookworm")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_an_image_that_is_there_is_named():
    images = MemoryImages({reference("bookworm"): EngineImage("sha256:0", 1)})
    done = call(images, "build", "bookworm")
    assert done.stdout == f"bookworm: is there already: {reference('bookworm')}\n"


def test_an_unknown_image_is_refused_before_anything_is_made(capsys):
    assert run(["images", "build", "manylinux_2_28", "bokworm"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(
        "error: gpuforge knows no image 'bokworm'\n  hint: it makes or pulls: bullseye, bookworm"
    )


def test_a_complete_image_passes():
    images = MemoryImages({reference("bookworm"): EngineImage("sha256:0", 1)}, says=[json.dumps(BOOKWORM)])
    done = call(images, "check", "bookworm")
    assert done.exit_code == 0
    assert (
        done.stdout
        == f"""\
{reference("bookworm")}
  glibc 2.36: wheels built in it need at most manylinux_2_36_x86_64
  CPython 3.11.2 (venv, pip, headers): /opt/python/cp311-cp311/bin/python3
  CPython 3.13.5 (venv, pip, headers): /opt/python/cp313-cp313/bin/python3
  g++ 12.2.0: /usr/bin/g++
  g++ 11.3.0: /usr/bin/g++-11
nothing is missing
"""
    )


def test_any_reference_is_checked_and_what_it_lacks_is_shown():
    images = MemoryImages({"team/old:1": EngineImage("sha256:0", 1)}, says=[OLD])
    done = call(images, "check", "team/old:1")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[2:] == [
        "missing: a CPython 3.11 or newer with venv and pip, in /opt/python/cpXY-cpXY or on PATH",
    ]
