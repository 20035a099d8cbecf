"""Decides whether this machine's CPU has a level; a library that was compiled for a level runs there and above.

The `flags` line of /proc/cpuinfo shows AVX and AVX-512 only if the system saves their registers, so XGETBV is not
needed.
"""

import os
from functools import cache
from typing import NamedTuple, Optional

from .values import Reason

CPUINFO = "/proc/cpuinfo"
FIRST = 1 << 14  # bytes that are read: the first CPU's lines; the file of a large machine is long and slow


# Levels: the x86-64 psABI, section 3.1.1, https://gitlab.com/x86-psABIs/x86-64-ABI. The features have the names
# of the `flags` line of /proc/cpuinfo:
# https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/arch/x86/include/asm/cpufeatures.h
# Machine (as in `uname -m`) -> its levels, the lowest first, each with the features that it adds to the one before.
LEVELS: "dict[str, dict[str, tuple[str, ...]]]" = {
    "x86_64": {
        "x86-64": (),
        "x86-64-v2": ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
        "x86-64-v3": ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
        "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
    },
}


class CpuLevel(NamedTuple):
    """The level that code for CPUs needs: "x86-64-v3", or "" for any CPU of the machine type."""

    name: str = ""

    @property
    def machine(self) -> str:
        return next((machine for machine, levels in LEVELS.items() if self.name in levels), "")

    @property
    def rank(self) -> int:
        """Its index among the levels of its machine, the lowest first; -1 for "" and unknown ones."""
        return list(LEVELS[self.machine]).index(self.name) if self.machine else -1

    @property
    def features(self) -> "tuple[str, ...]":
        levels = list(LEVELS.get(self.machine, {}).values())
        return tuple(name for level in levels[: self.rank + 1] for name in level)

    def of_image(self, kind: str) -> str:
        return self.name


class Cpu(NamedTuple):
    """The machine type ("x86_64") and the features of its CPU, None if the system does not list them."""

    machine: str
    features: "Optional[frozenset[str]]"


@cache
def this_cpu(cpuinfo: str = CPUINFO) -> Cpu:
    """Return the facts about this machine's CPU; raises nothing."""
    return Cpu(os.uname().machine, frozenset(fact("flags", cpuinfo).split()) or None)


def fact(name: str, cpuinfo: str = CPUINFO) -> str:
    """Return the value of a line of the first CPU, or ""; raises nothing."""
    try:
        with open(cpuinfo, "rb") as stream:
            lines = stream.read(FIRST).decode("ascii", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == name), "")


def refusal(level: CpuLevel, cpu: Optional[Cpu]) -> Optional[Reason]:
    """Return why code for a level does not run on a CPU, None if it does."""
    if not level.name:
        return None
    cpu = cpu or this_cpu()
    if not level.machine or level.machine != cpu.machine:
        return Reason("other-machine", {"level": level.name, "here": cpu.machine})
    if cpu.features is None and level.features:
        return Reason("cpu-unknown", {"level": level.name, "file": CPUINFO})
    lacking = [name for name in level.features if name not in (cpu.features or ())]
    return Reason("cpu-lacks", {"level": level.name, "lacking": ", ".join(lacking)}) if lacking else None
