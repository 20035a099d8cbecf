"""The symbol versions that an object requires, in their parts: "GLIBC" and "2.34" of GLIBC_2.34."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

from gpuforge.binary.facts import ElfObject

_LONGEST = 10  # digits of a number: hostile files have names of any length


class SymbolVersion(NamedTuple):
    """A symbol version. Those of one family are ordered by their numbers."""

    family: str  # "GLIBC", "GLIBCXX"
    numbers: tuple[int, ...]  # (2, 34); empty for a word
    release: str  # "2.34", "PRIVATE"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the name of a version; one without an underscore is a family without a release."""
        family, _, release = text.partition("_")
        parts = release.split(".")
        numeric = all(part.isascii() and part.isdecimal() and len(part) < _LONGEST for part in parts)
        return cls(family, tuple(map(int, parts)) if numeric else (), release)

    def __str__(self) -> str:
        return f"{self.family}_{self.release}" if self.release else self.family


def required_versions(binary: ElfObject) -> Iterator[tuple[str, SymbolVersion]]:
    """Yield each symbol version that an object requires, after the library that must have it."""
    for need in binary.version_needs:
        yield from ((need.library, SymbolVersion.parse(text)) for text in need.versions)
