"""Commands and manifests of the README and the pages work, as far as they are quick and need no network."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpuforge.cli import main
from gpuforge.manifest.load import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
HOW_TO = (ROOT / "docs" / "how-to.md").read_text()
FENCE = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What a snippet of the how-to page is added to, unless it names its own.
BEFORE = {
    "[toolchains.": '[toolchains.host]\ncompiler = "g++"\n',
    "[cuda.": '[cuda.13]\ntoolkit = "13.0"\narchs = ["90"]\n',
}
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
    "gpuforge schema": "schema",
}


@pytest.mark.parametrize("command", HERE)
def test_a_command_of_the_readme_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command in README + COMMANDS
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path))
    status = main.run(shlex.split(HERE[command]))
    assert (status, capsys.readouterr().out != "") == (0, True)


def test_the_manifest_of_the_readme_is_one(tmp_path: Path) -> None:
    (text,) = FENCE.findall(README)
    (tmp_path / "gpuforge.toml").write_text(text)
    assert load(tmp_path).manifest.package.name == "cufinufft"


@pytest.mark.parametrize("snippet", FENCE.findall(HOW_TO), ids=lambda text: text.split("]")[0].strip("["))
def test_a_snippet_of_the_how_to_page_completes_a_manifest(snippet: str, tmp_path: Path) -> None:
    text = 'schema = 1\n[package]\nname = "demo"\npython = ["3.12"]\n'
    text += "".join(lines for table, lines in BEFORE.items() if table not in snippet)
    (tmp_path / "gpuforge.toml").write_text(text + snippet)
    assert load(tmp_path).manifest.package.name == "demo"


def test_the_files_make_a_package_with_a_sound_manifest(tmp_path: Path) -> None:
    import tutorial

    for block in tutorial.blocks():
        if isinstance(block, tutorial.FileBlock):
            block.write(tmp_path)
    manifest = load(tmp_path / "gpuforge.toml").manifest
    assert [item.name for item in manifest.objects] == ["default-kernels", "cpu", "default-cpu"]
