"""Tags of wheels: Linux platform tags and their parts, and the tags that a Python can use.

https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from packaging.tags import Tag, compatible_tags, cpython_tags

from gpuforge.cpython import CPython

_TAG = re.compile(r"(?:(many|musl)linux_(\d+)_(\d+)|(manylinux\d+)|linux)(?:_(\w+))?")
_LIBCS = {"many": "glibc", "musl": "musl"}
# PEP 600, "Legacy manylinux tags"
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LONGEST = (2, 3)  # digits of the numbers in the version of a C library


class LinuxTag(NamedTuple):
    """The promise of a platform tag of Linux. Both names of one tag are equal: manylinux2014 and manylinux_2_17."""

    libc: str  # "glibc", "musl"; "" if it promises nothing: linux_x86_64
    floor: tuple[int, int]  # the oldest version of the C library: (2, 28)
    machine: str  # "x86_64"; "" if it has none: manylinux_2_28, the name of a policy

    @classmethod
    def parse(cls, tag: str) -> Self | None:
        """Parse a tag; None for another system. A version that no C library has promises nothing."""
        parts = _TAG.fullmatch(tag)
        if parts is None:
            return None
        machine = parts[5] or ""
        if parts[1] and all(len(parts[2 + n]) <= longest for n, longest in enumerate(_LONGEST)):
            return cls(_LIBCS[parts[1]], (int(parts[2]), int(parts[3])), machine)
        if parts[4] in _LEGACY:
            return cls("glibc", _LEGACY[parts[4]], machine)
        return cls("", (0, 0), machine)

    @classmethod
    def of_glibc(cls, version: str, machine: str) -> Self:
        """Return the tag of objects that need a version of glibc, "2.36"."""
        major, minor = version.split(".")[:2]
        return cls("glibc", (int(major), int(minor)), machine)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of a tag of glibc, the legacy name after the one of PEP 600."""
        policies = [
            "manylinux_{}_{}".format(*self.floor),
            *(n for n, f in _LEGACY.items() if f == self.floor),
        ]
        return tuple(f"{policy}_{self.machine}" for policy in policies)


def usable(python: CPython, platforms: Sequence[str]) -> Iterator[Tag]:
    """Yield the tags of the wheels that a CPython can use on these platforms, the most specific first."""
    yield from cpython_tags(python[:2], abis=[python.tag], platforms=platforms)
    yield from compatible_tags(python[:2], python.tag, platforms)


def serves(platform: str, machine: str) -> bool:
    """Return whether a wheel with this platform tag can be installed on Linux with glibc on such a machine."""
    tag = LinuxTag.parse(platform)
    return platform == "any" or (tag is not None and (tag.libc, tag.machine) == ("glibc", machine))
