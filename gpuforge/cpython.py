"""A version of CPython, in its spellings: 3.11, cp311, and 3.14t, cp314t for one without the GIL."""

import re
from typing import NamedTuple, Self

_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])(t?)")
_TAG = re.compile(r"cp(3)([0-9]{1,2})m?(t?)")

STABLE_ABIS = frozenset({"abi3", "abi3t"})
"""The ABI tags of the stable ABI: with the GIL (PEP 384), and without (PEP 803)."""

STABLE_MODULE = re.compile(r"\.abi3(?P<threads>t?)(?P<platform>-[\w-]+)?\.so$")
"""What the name of a module for the stable ABI ends with; with a platform from CPython 3.15 on."""


class CPython(NamedTuple):
    """A minor version of CPython; its order is that of its numbers."""

    major: int
    minor: int
    threads: str = ""  # "t" for a build without the GIL (PEP 703)

    @classmethod
    def parse(cls, version: str) -> Self:
        """Return the CPython of a version, "3.11", "3.11.7" or "3.14t"; raises ValueError for one without a minor."""
        numbers = _VERSION.match(version)
        if numbers is None:
            msg = f"{version!r} is not a version of CPython"
            raise ValueError(msg)
        return cls(int(numbers[1]), int(numbers[2]), numbers[3])

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

    @property
    def folder(self) -> str:
        """Return its folder in manylinux's /opt/python: "cp314-cp314t"."""
        return f"cp{self.major}{self.minor}-{self.tag}"

    @property
    def number(self) -> str:
        """Return its version without the kind of its threads, as markers and pip's --python-version have it: "3.14"."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.threads}"
