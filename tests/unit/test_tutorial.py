"""The tutorial of docs/tutorial.md can be taken apart: no block of it escapes the tests that run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuforge.manifest.load import load

SHOWN = "first 1.…\n…\nlast\n"


def test_the_files_make_a_package_with_a_sound_manifest(tmp_path: Path) -> None:
    import tutorial

    for block in tutorial.blocks():
        if isinstance(block, tutorial.FileBlock):
            block.write(tmp_path)
    manifest = load(tmp_path / "gpuforge.toml").manifest
    assert [item.name for item in manifest.objects] == ["default-kernels", "cpu", "default-cpu"]


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("first 1.2\nlast\n", True),
        ("first 1.2\nand\nmore\nlast\n", True),
        ("first 2.2\nlast\n", False),
        ("first 1.2\nlast\nmore\n", False),
        ("", False),
    ],
)
def test_what_a_command_printed_is_held_against_the_page(printed: str, same: bool) -> None:
    import tutorial

    assert tutorial.matches(printed, SHOWN) is same


def test_a_block_without_a_files_name_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tutorial

    page = tmp_path / "tutorial.md"
    text = tutorial.PAGE.read_text()
    page.write_text(text.replace("**`demo.py`**\n", "Such a program calls it:\n\n"))
    monkeypatch.setattr(tutorial, "PAGE", page)
    with pytest.raises(ValueError, match="a block of python without a file's name"):
        list(tutorial.blocks())
