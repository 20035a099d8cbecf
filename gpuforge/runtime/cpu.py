"""Decides whether this machine's CPU has a level; a library that was compiled for a level runs there and above.

The `flags` line of /proc/cpuinfo shows AVX and AVX-512 only if the system saves their registers, so XGETBV is not
needed.
"""

import os
from typing import NamedTuple, Optional

from .values import CpuLevel, Reason

CPUINFO = "/proc/cpuinfo"
FIRST = 1 << 14  # bytes that are read: the first CPU's lines; the file of a large machine is long and slow


class Cpu(NamedTuple):
    """The machine type ("x86_64") and the features of its CPU, None if the system does not list them."""

    machine: str
    features: "Optional[frozenset[str]]"


def this_cpu(cpuinfo: str = CPUINFO) -> Cpu:
    """Return the facts about this machine's CPU; raises nothing."""
    return Cpu(os.uname().machine, frozenset(_fact("flags", cpuinfo).split()) or None)


def model(cpuinfo: str = CPUINFO) -> str:
    """Return the name of this machine's CPU or, if it is unknown, the machine type; raises nothing."""
    return _fact("model name", cpuinfo).strip() or os.uname().machine


def _fact(name: str, cpuinfo: str) -> str:
    """Return the value of a line of the first CPU, or ""."""
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
