"""How a user-compiled object is compiled on the user's machine: the lowered recipe that its wheel carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import Object, Toolchain
from gpuforge.toolchains.detect import FAMILIES
from gpuforge.toolchains.model import LibraryCall
from gpuforge.toolchains.ranges import bounds


def toolchains(file: ManifestFile, item: Object, sources: Sequence[str]) -> list[dict[str, Any]]:
    """Return the toolchains of a user-compiled object in the order they are tried.

    Each has all that is needed to find the compiler, to judge its version and to call it. Raises UsageError for a
    toolchain that makes no libraries, and for a version range that can only be judged with `packaging`.
    """
    return [_lowered(file, item, number, sources) for number in range(len(item.toolchains))]


def call(toolchain: Toolchain, item: Object, sources: Sequence[str]) -> LibraryCall | None:
    """Return how a toolchain makes a library of an object's sources; None when it makes none."""
    flags = (*toolchain.flags, *item.flags)
    if toolchain.compiler == "command":
        return LibraryCall(argv=(*toolchain.command, *flags))
    family = FAMILIES.get(toolchain.compiler)
    return family.library(sources, flags) if family and family.library else None


def _lowered(file: ManifestFile, item: Object, number: int, sources: Sequence[str]) -> dict[str, Any]:
    name = item.toolchains[number]
    toolchain = file.manifest.toolchains[name]
    made = call(toolchain, item, sources)
    if made is None:
        able = [family for family in FAMILIES if FAMILIES[family].library]
        raise UsageError.of(
            f"object {item.name!r}: {toolchain.compiler} sources cannot be shipped yet",
            hint=f"choose among {', '.join([*able, 'command'])}",
            place=file.place("objects", file.manifest.objects.index(item), "toolchains", number),
        )
    family = FAMILIES.get(toolchain.compiler)
    return {
        "name": name,
        "family": toolchain.compiler,
        "version": toolchain.version,
        "accepts": _accepts(file, name, toolchain),
        "path": toolchain.path or "",
        "programs": family.programs.pattern if family else "",
        "answers": family.answers if family else "",
        "places": list(family.places) if family else [],
        "argv": list(made.argv),
        "product": toolchain.product or "",
        "offload": made.offload,
        "runtimes": list(made.runtimes),
        "install": {"": toolchain.install} if toolchain.install else dict(made.install),
    }


def _accepts(file: ManifestFile, name: str, toolchain: Toolchain) -> list[tuple[str, tuple[int, ...]]]:
    try:
        return [(bound.operator, bound.numbers) for bound in bounds(toolchain.version or "")]
    except ValueError:
        raise UsageError.of(
            f"[toolchains.{name}] version: {toolchain.version} is compared on users' machines, by numbers alone",
            hint='write it as in ">=11,<15"',
            place=file.place("toolchains", name, "version"),
        ) from None
