"""The names that the audit looks for in ELF files, from data/elf_patterns.toml and gpuforge.cuda."""

from functools import cache
from typing import Any, NamedTuple

from gpuforge.audit import policy
from gpuforge.binary.elf.patterns import Patterns, SymbolGroup
from gpuforge.cuda import interfaces
from gpuforge.datafile import load

_ONLY_STABLE_ABI = "python"


class StaticCudart(NamedTuple):
    """How a static CUDA runtime is recognized."""

    marker: str
    text: bytes
    own: str  # how the SONAME of the library itself begins


@cache
def patterns(*, stable_abi: bool, project: str = "") -> Patterns:
    """Return the names to look for in a wheel of a project; Python's C API only in modules of the stable ABI."""
    data = _data()
    groups = [
        SymbolGroup(
            row["group"],
            tuple(map(str.encode, row.get("prefixes", ()))),
            row["names"].encode(),
            row.get("marker", ""),
            row.get("defined", True),
            tuple(map(str.encode, row.get("parts", ()))),
        )
        for row in data["symbols"]
        if (stable_abi or row["group"] != _ONLY_STABLE_ABI) and row.get("package", "") != (project or None)
    ]
    of_platforms = (
        SymbolGroup(
            library,
            tuple(map(str.encode, sorted(names))),
            rf"(?:{'|'.join(sorted(names))})(?=\0)".encode(),
            defined=False,
            library=library,
        )
        for library, names in policy.forbidden().items()
    )
    return Patterns(
        markers=tuple((row["name"], row["begins"].encode()) for row in data["marker"]),
        symbols=(
            *groups,
            SymbolGroup("cuda", interfaces.BEGINNINGS, interfaces.cuda_pattern()),
            *of_platforms,
        ),
        libraries=data["libraries"]["names"].encode(),
        paths=tuple((row["part"].encode(), row["path"].encode()) for row in data["compiler"]),
        producers=tuple((row["name"], row["producer"].encode()) for row in data["compiler"]),
    )


@cache
def unstable() -> dict[str, str]:
    """Return the groups of symbols that change with each release of a package, by the package's name."""
    return {row["package"]: row["group"] for row in _data()["symbols"] if "package" in row}


@cache
def static_cudart() -> StaticCudart:
    """Return how a static CUDA runtime is recognized."""
    row = _data()["static_cudart"]
    return StaticCudart(row["marker"], row["text"].encode(), row["own"])


@cache
def _data() -> dict[str, Any]:
    return load(__file__, "elf_patterns.toml")
