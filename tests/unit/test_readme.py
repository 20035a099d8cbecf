"""Every command that the README shows is run: here when it is quick and needs no network, else where the list says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpuforge.cli import main
from gpuforge.manifest.load import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SAXPY = "recipes/saxpy"
# What is run here, with the arguments that stand for the README's: a build is planned.
HERE = {
    "gpuforge build recipes/cufinufft --cuda 13 --archs 90": "build recipes/cufinufft --cuda 13 --archs 90 --dry-run",
    "gpuforge build recipes/saxpy --cuda 11,12,13": f"build {SAXPY} --cuda 12,13 --python 3.11 --dry-run",
    "gpuforge build [PATH]": f"build {SAXPY} --cuda 13 --python 3.11 --dry-run",
    "gpuforge build --no-test": f"build {SAXPY} --cuda 13 --python 3.11 --no-test --dry-run",
    "gpuforge build --archs 90": f"build {SAXPY} --cuda 13 --python 3.11 --archs 90 --dry-run",
    "gpuforge build --dry-run --explain": f"build {SAXPY} --cuda 13 --python 3.11 --dry-run --explain",
    "gpuforge matrix [PATH] --format github": f"matrix {SAXPY} --python 3.11 --image bookworm --format github",
    "gpuforge --help": "--help",
    "gpuforge schema": "schema",
}
ELSEWHERE = {
    "make demo": "downloads a compiler: tests/integration/test_build_recipes.py builds what it builds",
    "make test": "this is it",
    "make quick": "a part of this",
    "gpuforge images build bookworm bookworm-test": "CI runs it; tests/integration/test_images.py",
    "gpuforge build recipes/saxpy --runner docker --cuda 11,12,13 --python 3.11,3.13": (
        "tests/integration/test_build_containers.py"
    ),
    "gpuforge build --runner docker": "tests/integration/test_build_containers.py",
    "gpuforge init [PROJECT]": "tests/unit/test_init_guesses.py, tests/integration/test_init_builds.py",
    "gpuforge audit WHEEL…": "tests/unit/test_audit_command.py",
    "gpuforge audit [WHEEL…] --env PATH": "tests/unit/test_audit_environment.py",
    "gpuforge audit [WHEEL…] --with REQUIREMENT": "tests/unit/test_audit_with.py",
    "gpuforge audit WHEEL… --against nvhpc@24.9": "tests/unit/test_audit_against.py",
    "gpuforge images list": "tests/unit/test_images_command.py",
}


def commands() -> set[str]:
    """The commands of the console blocks and of the table, and those in the text that are whole."""
    blocks = re.findall(r"^```console\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    typed = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    quoted = re.findall(r"`(gpuforge (?:--help|(?:init|build|audit|matrix|images|schema)[^`]*))`", prose)
    return {re.sub(r"\s+#.*$", "", command) for command in [*typed, *quoted]} - IN_CI


# Parts of the workflow's explanation, which tests/integration/test_readme_workflow.py holds.
IN_CI = {"gpuforge matrix", "gpuforge matrix --format gitlab > gpuforge.yml"}


def test_every_command_of_the_readme_is_run_somewhere() -> None:
    assert commands() == {*HERE, *ELSEWHERE}
    for place in ELSEWHERE.values():
        for path in re.findall(r"tests/\S+\.py", place):
            assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_readme_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path))
    status = main.run(shlex.split(HERE[command]))
    assert (status, capsys.readouterr().out != "") == (0, True)


def test_the_manifest_of_the_readme_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "gpuforge.toml").write_text(text)
    assert load(tmp_path).manifest.package.name == "saxpy"


def test_what_is_verified_by_a_test_names_one_that_is_there() -> None:
    paths = re.findall(r"(?:tests|bench)/[\w/]+\.py", (ROOT / "docs" / "verified.md").read_text())
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_no_recipe_installs_the_wheels_of_several_pythons_at_once() -> None:
    """`pip install dist/name-*.whl` fails where the build has found more than one Python; nor is an index asked."""
    for path in (ROOT / "recipes").glob("*/README.md"):
        for line in re.findall(r"^\$ pip install (.+)$", path.read_text(), re.MULTILINE):
            assert line.startswith("--no-index --find-links dist "), (path, line)
