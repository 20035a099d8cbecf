"""g++: the GNU C++ compiler, the default for host code."""

from __future__ import annotations

import re

from packaging.version import Version

from gpuforge.toolchains.model import Family


def parse(output: str) -> tuple[Version, str] | None:
    """Read `g++ (Debian 12.2.0-14+deb12u1) 12.2.0`; the identity leaves out the name it was called by."""
    first = output.partition("\n")[0].strip()
    match = re.fullmatch(r"\S+ (\(.*\)) (\d+(?:\.\d+)+)(?: .*)?", first)
    if match is None or "Free Software Foundation" not in output:
        return None
    return Version(match[2]), f"g++ {first.partition(' ')[2]}"


GXX = Family(
    name="g++",
    programs=re.compile(r"g\+\+(?:-(?P<version>[\d.]+))?"),
    parse=parse,
    compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
    runtimes=("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"),
    install="install it with the system's packages: apt install g++, dnf install gcc-c++",
    places=("/opt/rh/gcc-toolset-*/root/usr/bin",),
    c_program=("g++", "gcc"),
)
