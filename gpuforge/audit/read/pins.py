"""Find which toolchain the build files of a wheel ask its users for: makefiles, CMake and pkg-config configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.model import Pin
from gpuforge.wheel.archive import Archive

BUILD_FILE = r"(?i:.*makefile(\.\w+)?|.*\.mk)|.*(-config|Config|Targets|-targets)\.cmake|.*\.pc"
_LIKE_BUILD_FILES = (".mk", ".cmake", ".pc")  # quicker to look for than the pattern
_SDK = rb"/hpc_sdk/[^/\s]+/(\d+\.\d+)/compilers/bin/(nvc\+\+|nvc|nvfortran)"
_TARGET = rb"-gpu=[\w,.]*(?:cuda\d|cc\d)[\w,.]*"
_NVCC = rb"/cuda-(\d+\.\d+)/bin/nvcc"
_LARGEST = 4 << 20  # bytes; larger ones are no build files


def pins(archive: Archive) -> tuple[Pin, ...]:
    """List the toolchains that a wheel's build files name by path or option. Raises MalformedError."""
    return tuple(_pins(archive))


def _pins(archive: Archive) -> Iterator[Pin]:
    for member in archive.members:
        name = member.name.rpartition("/")[2]
        like = name.lower().endswith(_LIKE_BUILD_FILES) or "akefile" in name.lower()
        if not like or member.size > _LARGEST or not re.fullmatch(BUILD_FILE, name):
            continue
        text = archive.data(member)
        sdks: dict[str, dict[str, None]] = {}
        for version, tool in re.findall(_SDK, text):
            sdks.setdefault(version.decode(), {})[tool.decode()] = None
        for version, tools in sdks.items():
            yield Pin(member.name, f"{' and '.join(tools)} of the NVIDIA HPC SDK {version}")
        for option in dict.fromkeys(re.findall(_TARGET, text)):
            yield Pin(member.name, option.decode())
        for version in dict.fromkeys(re.findall(_NVCC, text)):
            yield Pin(member.name, f"nvcc {version.decode()}")
