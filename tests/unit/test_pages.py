"""Commands and manifests of the pages, as far as they are quick; tests/integration/test_page_snippets.py runs them."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import tutorial

from gpuforge.cli import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
COMMAND = re.compile(r"(?:^\$ |`)gpuforge ([a-z][^`\n]*)", re.MULTILINE)
FILES = (README, *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md"))
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(FILES)}


def test_the_build_of_the_readme_can_be_planned(tmp_path, monkeypatch, capsys):
    command = "build recipes/cufinufft --cuda 13 --archs 90"
    assert f"$ gpuforge {command}\n" in README.read_text()
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("GPUFORGE_CACHE_DIR", str(tmp_path))
    assert main.run([*command.split(), "--dry-run"]) == 0
    assert capsys.readouterr().out


def test_the_manifest_of_the_readme_is_the_recipes_shortened():
    (text,) = (
        each.text
        for each in tutorial.blocks(README)
        if isinstance(each, tutorial.Snippet) and each.language == "toml"
    )
    recipe = tomllib.loads((ROOT / "recipes" / "cufinufft" / "gpuforge.toml").read_text())
    assert has(recipe, tomllib.loads(text))


def has(whole: dict[str, Any], part: dict[str, Any]) -> bool:
    return all(
        has(whole[key], value) if isinstance(value, dict) else whole[key] == value
        for key, value in part.items()
    )


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if COMMAND.search(text)])
def test_commands_of_a_page_have_their_options(page):
    for line in COMMAND.findall(PAGES[page]):
        words = line.partition(" -- ")[0].partition(" #")[0].split()
        command: click.Command | None = main.cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            command = command.get_command(click.Context(command), words.pop(0).partition("|")[0])
        assert command, line
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        asked = {word.partition("=")[0].rstrip(".,…") for word in words if word.startswith("--")}
        assert asked <= {*known, "--help", "--version"}, line
