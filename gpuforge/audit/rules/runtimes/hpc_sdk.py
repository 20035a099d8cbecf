"""Detects the NVIDIA HPC SDK that compiled an object."""

from __future__ import annotations

from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries
from gpuforge.cuda.version import numbers_of


def sdk_version(binary: ElfObject) -> str:
    """Return the newest HPC SDK with traces in an object, "22.1"; "" for none, and for the SDK's own runtimes."""
    if not binary.producers or libraries.is_of_one_release(binary.name):
        return ""
    return max(binary.producers, key=numbers_of, default="")
