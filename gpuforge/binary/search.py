"""Find every place of a few bytes in many."""

from collections.abc import Iterator


def find_all(data: bytes, word: bytes) -> Iterator[int]:
    """Yield the offset of each occurrence of a word; occurrences may overlap."""
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)
