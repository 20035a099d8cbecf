"""The CUDA toolkits that PyPI has as whole compilers: which wheels, with hashes; the data is in data/pypi.toml."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from gpuforge.datafile import load
from gpuforge.errors import UsageError

COMPILER = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel of PyPI, exactly."""

    package: str
    version: str
    filename: str
    sha256: str
    size: int  # bytes

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Pin:
        """Make it of what `as_data` gave; raises UsageError if anything is missing."""
        try:
            return cls(**{name: kind(data[name]) for name, kind in _FIELDS.items()})
        except (KeyError, TypeError, ValueError):
            raise UsageError.of(
                f"not a pinned wheel: {data!r}", hint=f"it needs {', '.join(_FIELDS)}"
            ) from None

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return asdict(self)


_FIELDS: Mapping[str, type] = {"package": str, "version": str, "filename": str, "sha256": str, "size": int}


def toolkits() -> tuple[str, ...]:
    """Return the toolkit minors that PyPI has, oldest first."""
    return tuple(_data())


def libraries(toolkit: str) -> tuple[str, ...]:
    """Return the names of the parts that can be added to this toolkit's compiler: cufft, cublas, nvjpeg …"""
    return tuple(_data()[toolkit]["extras"])


def pins(toolkit: str, wanted: Sequence[str], machine: str) -> tuple[Pin, ...]:
    """Return the wheels of the compiler and of the `wanted` libraries, with what those need.

    Raises UsageError for a library that this toolkit does not have, with the nearest names.
    """
    return choose(_data()[toolkit], COMPILER, wanted, machine)


def choose(
    data: Mapping[str, Any], compiler: Iterable[str], wanted: Sequence[str], machine: str
) -> tuple[Pin, ...]:
    """Return, of a release's `wheels`, those of the `compiler` and of the `wanted` ones of its `extras`.

    Raises UsageError for an extra that it does not have, with the nearest names.
    """
    check_libraries(wanted, data["extras"], data["toolkit"])
    packages = {*compiler, *(package for name in wanted for package in data["extras"][name])}
    found = [row for row in data["wheels"] if row["package"] in packages and row["machine"] == machine]
    return tuple(Pin.from_data(row) for row in found)


def check_libraries(wanted: Sequence[str], known: Iterable[str], toolkit: str) -> None:
    """Raise UsageError if a name in `wanted` is not among `known`, with the nearest names of each."""
    names = sorted(known)
    bad = [name for name in wanted if name not in names]
    if bad:
        near = [match for name in bad for match in difflib.get_close_matches(name, names, n=2)]
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError.of(
            f"CUDA {toolkit} has no library {', '.join(map(repr, bad))}",
            hint=f"{guess}it has {', '.join(names)}",
        )


@cache
def _data() -> Mapping[str, Any]:
    return {row["toolkit"]: row for row in load(__file__, "pypi.toml")["release"]}
