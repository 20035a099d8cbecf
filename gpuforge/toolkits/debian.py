"""The CUDA compilers in Debian's non-free, with the wheels that have their headers and libraries; data/debian.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from gpuforge.datafile import load
from gpuforge.errors import UsageError
from gpuforge.toolkits import pypi
from gpuforge.toolkits.pypi import Pin

MIRROR = "https://deb.debian.org/debian"  # the default; any other by GPUFORGE_DEBIAN_MIRROR
_COMPILER = ("nvidia-cuda-runtime", "nvidia-cuda-nvcc", "nvidia-cuda-cccl")  # wheels with its headers


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a block: its place in the tree's `lib`, and its bytes in what the block unpacks to."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """A Debian package, or one block of it (`members` not empty): the bytes to download and their sha256."""

    package: str
    version: str
    path: str  # on the mirror
    start: int  # byte of the file
    size: int  # bytes
    sha256: str  # of these bytes
    members: tuple[Member, ...] = ()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Part:
        """Make it of what `as_data` gave; raises UsageError if anything is missing."""
        try:
            members = tuple(Member(m["name"], m["offset"], m["size"]) for m in data["members"])
            return cls(**{name: data[name] for name in _FIELDS}, members=members)
        except (KeyError, TypeError):
            raise UsageError.of(
                f"not a part of a package: {data!r}", hint=f"it needs {', '.join(_FIELDS)}, members"
            ) from None

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return asdict(self)


_FIELDS = ("package", "version", "path", "start", "size", "sha256")


def toolkits() -> tuple[str, ...]:
    """Return the toolkit minors that Debian has and gpuforge knows, oldest first."""
    return tuple(_data())


def nvcc(toolkit: str) -> str:
    """Return the compiler's version: "12.4.131"."""
    return str(_data()[toolkit]["nvcc"])


def suite(toolkit: str) -> str:
    """Return the Debian release that has it: "trixie"."""
    return str(_data()[toolkit]["suite"])


def parts(toolkit: str, machine: str) -> tuple[Part, ...]:
    """Return what is taken from Debian."""
    return tuple(Part.from_data(row) for row in _data()[toolkit]["packages"] if row["machine"] == machine)


def pins(toolkit: str, wanted: Sequence[str], machine: str) -> tuple[Pin, ...]:
    """Return the wheels of the headers, the runtime and the `wanted` libraries, with what those need.

    Raises UsageError for a library that this toolkit does not have, with the nearest names.
    """
    major = toolkit.partition(".")[0]
    return pypi.choose(_data()[toolkit], [f"{name}-cu{major}" for name in _COMPILER], wanted, machine)


@cache
def _data() -> Mapping[str, Any]:
    return {row["toolkit"]: row for row in load(__file__, "debian.toml")["release"]}
