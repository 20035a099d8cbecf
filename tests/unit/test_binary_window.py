"""Windows: the parts of a file that were kept while it was read in a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuforge.binary.window import MissedError, Window


def test_a_window_reads_across_its_pieces() -> None:
    window = Window(100)
    window.keep(10, b"abc", 10, 20)
    window.keep(13, b"defgh", 10, 20)
    window.keep(18, b"ij", 10, 20)
    assert window.read(11, 8) == b"bcdefghi"
    assert window.has(10, 20)
    assert not window.has(9, 12)
    assert not window.has(19, 21)
    with pytest.raises(MissedError):
        window.read(15, 10)


@given(st.binary(min_size=1, max_size=60), st.lists(st.tuples(*[st.integers(0, 60)] * 4), max_size=8))
def test_a_window_has_what_was_kept(data: bytes, kept: list[tuple[int, int, int, int]]) -> None:
    window, wanted = Window(len(data)), set[int]()
    for at, length, start, stop in kept:
        chunk = data[at : at + length]
        window.keep(at, chunk, start, stop)
        wanted |= set(range(max(at, start), min(at + len(chunk), stop)))
    for place in wanted:
        assert window.has(place, place + 1)
        assert window.read(place, 1) == data[place : place + 1]
    for start in range(len(data)):
        for stop in range(start + 1, len(data) + 1):
            if window.has(start, stop):
                assert window.read(start, stop - start) == data[start:stop]
