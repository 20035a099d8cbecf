"""A version of CPython, in its spellings: 3.11, cp311."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])")
_TAG = re.compile(r"cp(3)([0-9]{1,2})m?(t?)")


class CPython(NamedTuple):
    """A minor version of CPython; its order is that of its numbers."""

    major: int
    minor: int
    threads: str = ""  # "t" for a build without the GIL (PEP 703)

    @classmethod
    def parse(cls, version: str) -> Self:
        """Return the CPython of a version, "3.11" or "3.11.7"; raises ValueError for one without a minor."""
        numbers = _VERSION.match(version)
        if numbers is None:
            msg = f"{version!r} is not a version of CPython"
            raise ValueError(msg)
        return cls(int(numbers[1]), int(numbers[2]))

    @classmethod
    def of_tag(cls, tag: str) -> Self | None:
        """Return the CPython 3 of a Python or ABI tag, "cp311", "cp314t" or "cp37m"; None for "py3", "abi3" and others.

        https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
        """
        parts = _TAG.fullmatch(tag)
        return cls(int(parts[1]), int(parts[2]), parts[3]) if parts else None

    @property
    def tag(self) -> str:
        """Return its Python tag, which is its ABI tag, too: "cp311"."""
        return f"cp{self.major}{self.minor}{self.threads}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.threads}"
