"""GF206: objects that cannot be loaded on a machine without the driver."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.loading import is_imported
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.interfaces import definers, is_known

_GROUP = "cuda"  # of symbols that the audit looks for


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find NEEDED entries of the driver's own libraries, and the imports and programs that they break.

    If compiled code opens all of them later, no import breaks: then it is for information.
    """
    for wheel in graph.wheels:
        needing = [
            (found, drivers, graph.roots(found))
            for found in wheel.objects
            if (drivers := [e.needed for e in graph.from_object(found) if e.provider.source == "driver"])
        ]
        reached = any(is_imported(wheel, roots) for _, _, roots in needing)
        for found, drivers, roots in needing:
            unused = [name for name in drivers if _is_unused(graph, found, name)]
            used = [name for name in drivers if name not in unused]
            if used:
                yield _finding(found, used, roots, _REACHED if reached else _UNREACHED)
            if unused:
                yield _finding(
                    found, unused, roots, _UNUSED if reached else _UNUSED._replace(severity="info")
                )


RULE = Rule(
    code="GF206",
    severity="warning",
    title="a library of the driver is NEEDED: nothing loads on a machine without a GPU",
    check=check,
)


def _is_unused(graph: LinkGraph, binary: ElfObject, driver: str) -> bool:
    """Return whether no function of a driver's library is used by an object, nor by what is loaded with it."""
    library = sonames.unversioned(driver)
    if not is_known(library) or any(need.library == driver for need in binary.version_needs):
        return False
    others = (o for each in graph.load_sets_of(binary) for o in each.objects if driver not in o.needed)
    return all(
        o.symbols is not None
        and not any(library in definers(name) for name in (*o.undefined(_GROUP), *o.optional(_GROUP)))
        for o in (binary, *others)
    )


def _finding(binary: ElfObject, drivers: list[str], roots: Sequence[ElfObject], text: Text) -> Finding:
    broken = tuple(r.file for r in roots if r is not binary)
    return RULE.finding(
        binary.wheel,
        **text._asdict(),
        files=(binary.file,),
        subjects=tuple(
            Subject(
                library=name,
                detail=", ".join(_details(name, broken)),
                facts=facts_of(broken=broken) if broken else (),
                needed_by=(binary.file,),
            )
            for name in drivers
        ),
        cause=(text.what,),
        commands=[
            f"patchelf --remove-needed {shlex.quote(name)} {shlex.quote(binary.file)}" for name in drivers
        ]
        if text.what == _UNUSED.what
        else (),
    )


_REACHED = Text(  # by an import or a program
    "These objects NEED libraries of the NVIDIA driver.",
    "They do not load on a machine without the driver, so imports fail there: in tests, documentation builds, and "
    "in programs that would run on the CPU.",
    "Open the driver's libraries with dlopen at the first GPU call. The CUDA runtime can look up functions of "
    "libcuda.so.1: cudaGetDriverEntryPointByVersion, before CUDA 12.5 cudaGetDriverEntryPoint.",
    "warning",
)
_UNUSED = Text(
    "These objects NEED libraries of the NVIDIA driver, and use none of their functions.",
    "They do not load on a machine without the driver, for nothing.",
    "Link without -lcuda (CUDA::cuda_driver, CUDA::nvml), or with -Wl,--as-needed before it.",
    "warning",
)
_UNREACHED = Text(
    "These objects NEED libraries of the NVIDIA driver, and no import leads to them.",
    "Code that opens them fails on a machine without the driver; everything else works there.",
    "None needed if the code that opens them handles the failure.",
    "info",
)


def _details(name: str, broken: Sequence[str]) -> Iterator[str]:
    if not libraries.is_soname_of_driver(name):
        yield "not in every driver"
    if broken:
        yield "without it, {broken:4} cannot be imported"
