"""Which levels of x86-64 this machine's CPU has; a library that was compiled for a level runs there and above.

Levels and their features: the x86-64 psABI, section 3.1.1, https://gitlab.com/x86-psABIs/x86-64-ABI
The names are those of the `flags` line of /proc/cpuinfo:
https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git/tree/arch/x86/include/asm/cpufeatures.h
It shows AVX and AVX-512 only where the system keeps their registers, which XGETBV would say.
"""

import os
from typing import NamedTuple, Optional

from .reason import Reason

CPUINFO = "/proc/cpuinfo"
FIRST = 1 << 14  # bytes that are read: the first CPU's lines; the file of a large machine is long and slow

# Machine (as `uname -m` has it) -> its levels, the lowest first, each with what it adds to the one before.
LEVELS: "dict[str, dict[str, tuple[str, ...]]]" = {
    "x86_64": {
        "x86-64": (),
        "x86-64-v2": ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
        "x86-64-v3": ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
        "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
    },
}


class Cpu(NamedTuple):
    """The machine's kind ("x86_64") and the features of its CPU, None where the system does not tell them."""

    machine: str
    features: "Optional[frozenset[str]]"


def look(cpuinfo: str = CPUINFO) -> Cpu:
    """Return what this machine's CPU has; raises nothing."""
    return Cpu(os.uname().machine, frozenset(_fact("flags", cpuinfo).split()) or None)


def model(cpuinfo: str = CPUINFO) -> str:
    """Return the name of this machine's CPU, where the system does not tell it the machine's kind; raises nothing."""
    return _fact("model name", cpuinfo).strip() or os.uname().machine


def _fact(name: str, cpuinfo: str) -> str:
    """Return what the first CPU's lines say of a fact, "" for nothing."""
    try:
        with open(cpuinfo, "rb") as stream:
            lines = stream.read(FIRST).decode("ascii", "replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == name), "")


def rank(level: str) -> int:
    """Return the place of a level among those of its machine, the lowest first; -1 for "" and unknown ones."""
    return next((list(levels).index(level) for levels in LEVELS.values() if level in levels), -1)


def refusal(level: str, cpu: Cpu) -> Optional[Reason]:
    """Return why code for a level does not run on a CPU, None when it does. "" is any CPU of the machine's kind."""
    if not level:
        return None
    machine = next((machine for machine, levels in LEVELS.items() if level in levels), "")
    if not machine or machine != cpu.machine:
        return Reason("other-machine", {"level": level, "here": cpu.machine})
    names = list(LEVELS[machine])
    needed = [name for each in names[: names.index(level) + 1] for name in LEVELS[machine][each]]
    if cpu.features is None and needed:
        return Reason("cpu-unknown", {"level": level, "file": CPUINFO})
    lacking = [name for name in needed if name not in (cpu.features or ())]
    return Reason("cpu-lacks", {"level": level, "lacking": ", ".join(lacking)}) if lacking else None
