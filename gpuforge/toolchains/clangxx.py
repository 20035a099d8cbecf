"""clang++: the LLVM C++ compiler, for host code."""

from __future__ import annotations

import re

from packaging.version import Version

from gpuforge.toolchains.model import Family


def parse(output: str) -> tuple[Version, str] | None:
    """Read `Debian clang version 19.1.7 (3)` and its `Target:` line; Apple's and NVIDIA's clangs are others'."""
    match = re.search(r"^(?:(?!Apple).)*clang version (\d+\.\d+\.\d+)[^\n]*", output, re.MULTILINE)
    if match is None:
        return None
    target = re.search(r"^Target: (.*)$", output, re.MULTILINE)
    return Version(match[1]), match[0].strip() + (f"; {target[1].strip()}" if target else "")


CLANGXX = Family(
    name="clang++",
    programs=re.compile(r"clang\+\+(?:-(?P<version>[\d.]+))?"),
    parse=parse,
    compiles=(".cpp", ".cc", ".cxx", ".c++", ".C", ".c"),
    runtimes=("libstdc++.so.6", "libgcc_s.so.1", "libomp.so.5"),
    install="install it with the system's packages: apt install clang, dnf install clang",
    places=("/usr/lib/llvm-*/bin",),
    c_program=("clang++", "clang"),
)
