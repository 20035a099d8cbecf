"""GF508: debug information in the download."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.elf.header import EM_CUDA
from gpuforge.binary.facts import ElfObject

_LEAST = 1 << 20  # bytes in the whole wheel; less is not reported
_ALLOC = 2  # SHF_ALLOC: the section is loaded
_SHARE = 100  # a file with less than this part of it is not named


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Add up the `.debug_*` sections of a wheel's objects."""
    for wheel in graph.wheels:
        sizes = {o.file: size for o in wheel.objects if (size := _size(o))}
        total = sum(sizes.values())
        if total < _LEAST:
            continue
        largest = sorted(sizes, key=lambda file: -sizes[file])
        patched = {o.file for o in wheel.objects if o.file in sizes and o.links and _is_patched(o)}
        named = [file for file in largest if sizes[file] * _SHARE >= total] or largest[:1]
        others = tuple(largest[len(named) :])
        size = sum(sizes[file] for file in others)
        rest = (
            [Subject(detail="{size:KiB} KiB in", facts=facts_of(size=size), names=others)] if others else []
        )
        yield RULE.finding(
            wheel.name,
            files=tuple(largest),
            subjects=(
                *(
                    Subject(file=file, detail="{size:KiB} KiB", facts=facts_of(size=sizes[file]))
                    for file in named
                ),
                *rest,
            ),
            what=f"The wheel contains {total >> 20} MiB of debug information.",
            why="Users download it, and it contains the paths of the build machine.",
            fix=_BEFORE if patched else _STRIP,
            cause=(total >> 20, bool(patched)),
            commands=tuple(
                f"strip --strip-debug {shlex.quote(o.file)}"
                for o in wheel.objects
                if o.links and o.file in sizes and o.file not in patched
            ),
        )


_STRIP = "Strip it, as auditwheel repair --strip does, or keep it in separate files."
_BEFORE = (
    "Strip it when the wheel is built, before patchelf changes the files (auditwheel repair --strip does both in this "
    "order): some files that patchelf has changed do not load once they are stripped."
)


RULE = Rule(
    code="GF508",
    severity="info",
    title="debug information is left in",
    check=check,
)


def _size(binary: ElfObject) -> int:
    sizes = [s for s in binary.sections if s.name.startswith((".debug_", ".zdebug_"))]
    if binary.machine == EM_CUDA:
        sizes = [s for s in sizes if s.name != ".debug_frame"]  # ptxas always writes it, and it has no paths
    return sum(s.size for s in sizes)


def _is_patched(binary: ElfObject) -> bool:
    """Return whether a tool such as patchelf has moved loaded sections behind those that are only for debuggers.

    strip then moves them back, and segments without sections, which old releases of patchelf leave, break.
    """
    loaded = [s.offset for s in binary.sections if s.size and s.flags & _ALLOC]
    others = [s.offset for s in binary.sections if s.size and s.name and not s.flags & _ALLOC]
    return bool(loaded and others) and max(loaded) > min(others)
