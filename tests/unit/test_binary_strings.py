"""String tables that are too long to be kept: their strings are read one by one."""

from __future__ import annotations

import pytest

from gpuforge.binary.elf import header
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

CONTENT = b"\0one\0two\0three\0"


def test_strings_of_a_long_table_are_read_also_after_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "LONGEST", 8)
    table = header.StringTable(Window.of(b"head" + CONTENT), 4, len(CONTENT))
    assert not table.has(b"two")  # it is not searched
    assert (table.text(1), table.texts([5, 9])) == ("one", ["two", "three"])


@pytest.mark.parametrize("longest", [8, 1 << 20])
def test_a_string_without_an_end_is_an_error(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "LONGEST", longest)
    table = header.StringTable(Window.of(CONTENT[:-1]), 0, len(CONTENT) - 1)
    with pytest.raises(MalformedError, match="has no end"):
        table.text(9)
