"""Small calls that go wrong, or have nothing to do: the status, and a message that names the cause."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from audit_samples import elf, wheel
from image_samples import without_engine
from plan_samples import LoadRecipe

from gpuforge import disk
from gpuforge.cli import folders
from gpuforge.cli.dist import put
from gpuforge.cli.main import run
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.manifest.load import load

PROGRAM = (sys.executable, "-c", "from gpuforge.cli.main import main; main()")


def call(*arguments: str, stdout: str = os.devnull, **environ: str) -> subprocess.CompletedProcess[str]:
    with Path(stdout).open("w") as out:
        environment = {**os.environ, **environ}
        return subprocess.run(
            [*PROGRAM, *arguments],
            check=False,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["bash_source", "zsh_source", "fish_source", "bash_complete"])
def test_a_completion_ends_with_0(what: str) -> None:
    done = call(_GPUFORGE_COMPLETE=what, COMP_WORDS="gpuforge bu", COMP_CWORD="1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_a_full_standard_output_is_named(tmp_path: Path) -> None:
    clean = wheel(tmp_path, {"demo/a.so": elf()})
    done = call("audit", str(clean), stdout="/dev/full")
    assert done.returncode == 3
    assert done.stderr.startswith("error: the standard output: No space left on device\n  hint: ")


@pytest.mark.thorough
def test_messages_that_cannot_be_written_change_no_status(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*PROGRAM, "audit", str(tmp_path / "missing.whl")]
        assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=full).returncode == 2


def test_a_full_disk_of_the_output_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "demo.whl").write_bytes(b"PK")
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left") as caught:
        put(tmp_path / "demo.whl", tmp_path / "dist", "cell", {})
    assert caught.value.filename == str(tmp_path / "dist/demo.whl")


def test_init_looks_at_its_output_before_it_fetches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "no-such-project", "-o", "/proc/x.toml"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: /proc/x.toml cannot be written: ")
    assert err.endswith("  hint: name another file with --output (-o), or `-o -` to print it\n")


def test_a_temporary_name_is_in_no_message(tmp_path: Path) -> None:
    with pytest.raises(ActionError) as caught:
        disk.write_text(Path("/proc/x.toml"), "")
    assert str(caught.value).startswith("/proc/x.toml: ")


def test_the_default_cache_folder_is_named_by_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = tmp_path / "file/cache"
    for environ, source in (
        ({}, "which is the default"),
        ({"GPUFORGE_CACHE_DIR": str(cache)}, "which GPUFORGE_CACHE_DIR names"),
    ):
        with pytest.raises(MissingError, match=f"^the cache folder {cache}, {source}, cannot be used: "):
            folders.check(tmp_path / "dist", cache, environ)


@pytest.mark.thorough
def test_without_an_engine_an_unknown_image_is_still_unknown(tmp_path: Path) -> None:
    done = without_engine(tmp_path, "check", "nosuch")
    assert done.returncode == 3
    assert done.stderr.startswith("error: image nosuch is not here, and gpuforge knows none of this name\n")
    assert "--runner" not in without_engine(tmp_path, "check", "bookworm").stderr


@pytest.mark.parametrize(("written", "meant"), [("sm_80", "80"), ("8.6", "86"), ("compute_90a", "90a")])
def test_another_spelling_of_an_architecture_has_the_right_one_as_hint(
    recipe: LoadRecipe, written: str, meant: str
) -> None:
    file = recipe().path
    file.write_text(file.read_text().replace('archs = ["80", "90a"]', f'archs = ["{written}"]'))
    with pytest.raises(UsageError) as caught:
        load(file)
    assert [each.hint for each in caught.value.diagnostics] == [f'write "{meant}"']
