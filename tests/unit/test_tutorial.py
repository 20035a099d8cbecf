"""The tutorial of docs/kernels.md can be taken apart: no block of it escapes the tests that run it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuforge.manifest.load import load

ROOT = Path(__file__).parents[2]
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

    page = tmp_path / "kernels.md"
    text = tutorial.PAGE.read_text()
    page.write_text(text.replace("**`demo.py`**\n", "Such a program calls it:\n\n"))
    monkeypatch.setattr(tutorial, "PAGE", page)
    with pytest.raises(ValueError, match="a block of python without a file's name"):
        list(tutorial.blocks())


# The commands of the page's other sections, with the test that runs each.
REFERENCE = {
    "python -m saxpy._gpuforge explain": "tests/integration/test_build_recipes.py",
    "python -m PACKAGE._gpuforge cache ls       # entries, what they are for, when they were last used": (
        "tests/unit/test_runtime_cache.py"
    ),
    "python -m PACKAGE._gpuforge cache verify   # exit status 1 if an entry is damaged": (
        "tests/unit/test_runtime_cache.py"
    ),
    "python -m PACKAGE._gpuforge cache prune --size 200M": "tests/unit/test_runtime_cache.py",
    "python -m PACKAGE._gpuforge cache clear": "tests/unit/test_runtime_cache.py",
    "pip install saxpy              # computes on the CPU; `explain` says what to install": (
        "tests/integration/test_kernels_wheels.py"
    ),
    "pip install saxpy[cuda13]      # adds saxpy-kernels-cu13 of the same version and the CUDA packages that it needs": (  # noqa: E501  the page's
        "tests/integration/test_kernels_wheels.py"
    ),
    "python -m membrane._gpuforge compile": "tests/integration/test_openacc_recipe.py",
    "include=$(python -m membrane._gpuforge include)": "tests/integration/test_kernels_header.py",
    'cc -std=c99 -I"$include" -Imod host.c -o host -pthread -ldl': "tests/integration/test_kernels_header.py",
    './host "$(dirname "$include")"': "tests/integration/test_kernels_header.py",
}


def test_every_other_command_of_the_page_has_a_test_that_runs_it() -> None:
    import tutorial

    page = tutorial.PAGE.read_text()
    rest = page[page.index("\n## Which kernels are used\n") :]
    typed = re.findall(r"^\$ (.+)$", rest, re.MULTILINE)
    assert sorted(typed) == sorted(REFERENCE), "write the new command's test into REFERENCE"
    for file in REFERENCE.values():
        assert (ROOT / file).is_file(), file
