"""The NVIDIA HPC SDK that compiled an object."""

from __future__ import annotations

from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries


def sdk_version(found: ElfObject) -> str:
    """Return the newest HPC SDK that left its traces in an object, "22.1"; "" for none, and for its own runtimes."""
    if not found.producers or libraries.compiler_runtime(libraries.plain_name(found.name)) in {
        "nvhpc",
        "pgi",
    }:
        return ""
    return max(found.producers, key=_number, default="")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split("."))
