"""What a host build took from the machine that it ran on: recorded by its compilers' wrappers and by CMake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

CPU_OPTIONS = "cpu-options"  # the file in the build's folder where wrappers record a call: "-mavx2 a.cpp"
NEWER = (
    "arch=",
    "avx",
    "fma",
    "sse3",
    "ssse3",
    "sse4",
    "f16c",
    "bmi",
    "popcnt",
    "lzcnt",
    "movbe",
    "aes",
    "pclmul",
)
"""How options (`-mavx2`) for newer processors than x86-64's baseline begin (x86-64 psABI, "Machine Levels")."""
_NEWER = rf"-m(?:{'|'.join(NEWER)})[^\s\"']*"
_LISTED = 3


def of_cpu(scratch: Path, source: Path) -> Iterator[str]:
    """Yield sentences about code for newer processors than the wheel's tag promises, and CMake's checks of this one."""
    record = scratch / CPU_OPTIONS
    files: dict[str, set[str]] = {}
    for line in record.read_text(errors="replace").splitlines() if record.exists() else ():
        options, _, file = line.rpartition(" ")
        files.setdefault(options, set()).add(file.removeprefix(f"{source}/").removeprefix(f"{scratch}/"))
    for options, names in sorted(files.items()):
        yield (
            f"compiled with {options}: {shortened(sorted(names))}. Older processors stop there with an illegal "
            "instruction, unless the program asks the processor first"
        )
    for top in (scratch / "build", source):
        for log in sorted(top.rglob("CMakeConfigureLog.yaml")):
            yield from _checks_run(log.read_text(errors="replace"))


def _checks_run(log: str) -> Iterator[str]:
    """Yield sentences about the programs that CMake compiled for a newer processor, and ran.

    https://cmake.org/cmake/help/latest/manual/cmake-configure-log.7.html
    """
    for event in re.split(r"^  -\n", log, flags=re.MULTILINE):
        option = re.search(rf"\s({_NEWER})", event)
        ran = re.search(r'runResult:\n\s+variable: "([^"]+)"', event)
        if not ran or not option:
            continue
        place = re.findall(r'^      - "([^/"][^"]+) \(', event, flags=re.MULTILINE)
        name = ran[1].removesuffix("_EXITCODE")
        yield (
            f"{place[-1] if place else 'CMake'} ran a program with {option[1]} on this processor; another one may "
            f'decide otherwise. Decide it: "cmake.define.{name}" = "OFF", or "ON", below [build.config-settings]'
        )


def shortened(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
