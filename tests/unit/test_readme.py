"""The commands and the manifest of the README work, as far as they are quick and need no network."""

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


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_readme_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command in README
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path))
    status = main.run(shlex.split(HERE[command]))
    assert (status, capsys.readouterr().out != "") == (0, True)


def test_the_manifest_of_the_readme_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "gpuforge.toml").write_text(text)
    assert load(tmp_path).manifest.package.name == "saxpy"


def test_no_recipe_installs_the_wheels_of_several_pythons_at_once() -> None:
    """`pip install dist/name-*.whl` fails where the build has found more than one Python; nor is an index asked."""
    for path in (ROOT / "recipes").glob("*/README.md"):
        for line in re.findall(r"^\$ pip install (.+)$", path.read_text(), re.MULTILINE):
            assert line.startswith("--no-index --find-links dist "), (path, line)
