"""How a user-compiled object is compiled on the user's machine: the lowered recipe that its wheel carries."""

from __future__ import annotations

from typing import Any

from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Object

# `{compiler}`, `{arch}` (of the user's GPU: "90"), `{sources}` and `{output}` are known there only.
_ARGV = {
    "g++": ["{compiler}", "-O2", "-fPIC", "-shared"],
    "clang++": ["{compiler}", "-O2", "-fPIC", "-shared"],
    "nvcc": ["{compiler}", "-O2", "-Xcompiler=-fPIC", "-shared", "-cudart=shared", "-arch=sm_{arch}"],
    "nvc++": ["{compiler}", "-O2", "-fPIC", "-shared", "-acc", "-gpu=cc{arch}"],
}


def toolchains(file: ManifestFile, item: Object) -> list[dict[str, Any]]:
    """Return the toolchains of a user-compiled object in the order they are tried, each with its argv.

    Raises UsageError for a toolchain that has no compile line of this kind yet.
    """
    return [_lowered(file, item, number, name) for number, name in enumerate(item.toolchains)]


def _lowered(file: ManifestFile, item: Object, number: int, name: str) -> dict[str, Any]:
    toolchain = file.manifest.toolchains[name]
    if toolchain.compiler not in _ARGV:
        index = file.manifest.objects.index(item)
        raise UsageError.of(
            f"object {item.name!r}: {toolchain.compiler} sources cannot be shipped yet",
            hint=f"choose among {', '.join(_ARGV)}",
            place=file.place("objects", index, "toolchains", number),
        )
    return {
        "name": name,
        "family": toolchain.compiler,
        "version": toolchain.version,
        "argv": [
            *_ARGV[toolchain.compiler],
            *toolchain.flags,
            *item.flags,
            "-I{include}",
            "{sources}",
            "-o",
            "{output}",
        ],
    }
