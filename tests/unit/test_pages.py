"""Commands and manifests of the README and the pages work, as far as they are quick and need no network."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import tomli_w

from gpuforge.cli import main
from gpuforge.manifest.load import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^\$ |`)gpuforge ([a-z][^`\n]*)", re.MULTILINE)
FILES = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md"))
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(FILES)}
# What the snippets of a page are added to.
PROJECT = """
schema = 1
package = { name = "demo", python = ["3.11"] }
cuda.13 = { toolkit = "13.0", archs = ["90"] }
toolchains.host = { compiler = "g++" }
toolchains.device = { compiler = "nvcc" }
toolchains.acc = { compiler = "nvc++", flags = ["-acc=gpu"] }
toolchains.offload = { compiler = "g++", flags = ["-fopenacc"] }
objects = [{ name = "demo", role = "fallback", kind = "module", sources = ["demo.cu"], toolchain = "device" }]
"""
OF_PROJECTS = ["axes", "ci", "how-to", "kernel-libraries", "kernels", "linkage", "releases"]
NOT_IN_THE_IMAGE = "no usable clang++ in image bookworm"


def test_the_build_of_the_readme_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "build recipes/cufinufft --cuda 13 --archs 90"
    assert f"$ gpuforge {command}\n" in README
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path))
    assert main.run([*command.split(), "--dry-run"]) == 0
    assert capsys.readouterr().out


def test_the_manifest_of_the_readme_is_one(tmp_path: Path) -> None:
    (text,) = FENCE.findall(README)
    (tmp_path / "gpuforge.toml").write_text(text)
    assert load(tmp_path).manifest.package.name == "cufinufft"


def merged(project: dict[str, Any], snippet: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the project with a snippet, and whether that has something which the project had otherwise."""
    made, again = dict(project), False
    for key, value in snippet.items():
        known = made.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            made[key], more = merged(known, value)
        elif isinstance(value, list) and isinstance(value[0], dict) and known:
            names = {each["name"] for each in value}
            made[key] = [*(each for each in known if each["name"] not in names), *value]
            more = len(made[key]) < len(known) + len(value)
        else:
            made[key], more = value, known not in (None, value)
        again |= more
    return made, again


def projects(page: str) -> Iterator[dict[str, Any]]:
    """Yield the project that the snippets of a page make, and for each that has it otherwise the project with that."""
    base, project = tomllib.loads(PROJECT), dict[str, Any]()
    for snippet in map(tomllib.loads, FENCE.findall(PAGES[f"docs/{page}.md"])):
        made, again = merged(project, snippet)
        if again:
            yield merged(base, made)[0]
        else:
            project = made
    yield merged(base, project)[0]


@pytest.mark.thorough
@pytest.mark.parametrize("page", OF_PROJECTS)
def test_the_snippets_of_a_page_are_one_project_that_can_be_planned(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, project in enumerate(projects(page)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "gpuforge.toml").write_text(tomli_w.dumps(project))
        for item in project["objects"]:
            for pattern in (
                *item["sources"],
                *item.get("headers", []),
                *item.get("abi", {}).get("headers", []),
            ):
                file = folder / pattern.replace("*", "demo")
                file.parent.mkdir(exist_ok=True)
                file.touch()
        status, errors = main.run(["matrix", str(folder), "--image", "bookworm"]), capsys.readouterr().err
        assert status == 0 or NOT_IN_THE_IMAGE in errors, errors


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if COMMAND.search(text)])
def test_commands_of_a_page_have_their_options(page: str) -> None:
    for line in COMMAND.findall(PAGES[page]):
        words = line.partition(" -- ")[0].partition(" #")[0].split()
        command: click.Command | None = main.cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            command = command.get_command(click.Context(command), words.pop(0).partition("|")[0])
        assert command, line
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        asked = {word.partition("=")[0].rstrip(".,…") for word in words if word.startswith("--")}
        assert asked <= {*known, "--help", "--version"}, line


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if PYTHON.search(text)])
def test_what_a_pages_python_imports_of_gpuforge_is_there(page: str) -> None:
    for found in (node for text in PYTHON.findall(PAGES[page]) for node in ast.walk(ast.parse(text))):
        module = found.module or "" if isinstance(found, ast.ImportFrom) else ""
        if module.partition(".")[0] in {"_gpuforge", "gpuforge"}:
            names = [each.name for each in found.names]
            there = __import__(module.replace("_gpuforge", "gpuforge.runtime"), fromlist=names)
            assert [name for name in names if not hasattr(there, name)] == []


def test_the_files_make_a_package_with_a_sound_manifest(tmp_path: Path) -> None:
    import tutorial

    for block in tutorial.blocks():
        if isinstance(block, tutorial.FileBlock):
            block.write(tmp_path)
    manifest = load(tmp_path / "gpuforge.toml").manifest
    assert [item.name for item in manifest.objects] == ["default-kernels", "cpu", "default-cpu"]
