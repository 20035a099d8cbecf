"""docs/asked-for.md names tests and code that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "asked-for.md").read_text(encoding="utf-8")


def test_every_file_and_test_that_the_page_names_is_there() -> None:
    tests = {
        path.name: path for folder in ("tests", "recipes") for path in (ROOT / folder).rglob("test_*.py")
    }
    functions = {
        name for path in tests.values() for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    words = set(re.findall(r"`(?:\S*::)?(test_\w+)`", PAGE))
    assert len(words) > 20
    assert words <= functions
    files = {word.partition("::")[0] for word in re.findall(r"`(\S+\.(?:py|toml)\S*)`", PAGE)}
    assert {file for file in files if file not in tests and not _is_there(file)} == set()


def _is_there(file: str) -> bool:
    places = (ROOT / file, ROOT / "recipes" / "cython-opencl" / file)
    return any(place.is_file() for place in places)
