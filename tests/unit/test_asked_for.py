"""Each row of docs/asked-for.md names a test or code that is there, and each test is in the file that is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "asked-for.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| [●◐] \| (.*) \|$")
NAMED = re.compile(r"`((?:[\w./-]+\.(?:py|toml))?)((?:::)?(?:test_\w+)?)`")


def files_named(name: str) -> list[Path]:
    """Return the file of that path, or the files of that name."""
    if not name:
        return []
    if "/" in name:
        return [ROOT / name] if (ROOT / name).is_file() else []
    own = [ROOT / "recipes" / "cython-opencl" / name]
    return [file for file in own if file.is_file()] or [
        file for folder in ("tests", "recipes") for file in (ROOT / folder).rglob(name)
    ]


def wrong(text: str, file: str) -> Iterator[str]:
    """Yield what is wrong with what a row names; `file` has the tests that are named without one."""
    named = [found for found in NAMED.findall(text) if any(found)]
    if not named:
        yield "names no test and no file"
    for path, function in named:
        if path:
            file = path
        found = files_named(file)
        if len(found) != 1:
            yield f"{file or 'no file'}: {len(found)} of that name"
        elif function and f"def {function.lstrip(':')}(" not in found[0].read_text(encoding="utf-8"):
            yield f"{file} has no {function.lstrip(':')}"


def rows() -> Iterator[tuple[str, str, str]]:
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        default = re.search(r"The tests are in `(\S+)`", text)
        for line in text.splitlines():
            found = ROW.match(line)
            if found:
                yield f"{title.partition(':')[0]} {found[1]}", found[3], default[1] if default else ""


def test_the_page_has_every_row() -> None:
    lines = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert len(lines) == len(list(rows())) == 8 + 8 + 8 + 9 + 9


@pytest.mark.parametrize(("text", "default"), [row[1:] for row in rows()], ids=[row[0] for row in rows()])
def test_a_row_names_what_shows_it(text: str, default: str) -> None:
    assert list(wrong(text, default)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("the wheel, H100", "names no test and no file"),
        ("`GPUFORGE_KERNEL_HOME`", "names no test and no file"),
        ("`test_asked_for.py::test_gone`", "test_asked_for.py has no test_gone"),
        ("`test_gone.py`", "test_gone.py: 0 of that name"),
        ("`test_a_row_names_what_shows_it`", "no file: 0 of that name"),
        ("`test_asked_for.py` and `::test_gone`", "test_asked_for.py has no test_gone"),
        ("`test_asked_for.py::test_cpus_only`", "test_asked_for.py has no test_cpus_only"),
    ],
)
def test_a_row_that_shows_nothing_is_found(text: str, problem: str) -> None:
    assert list(wrong(text, "")) == [problem]
