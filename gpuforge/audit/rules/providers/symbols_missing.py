"""GF215: called functions of CUDA's libraries that nothing NEEDED defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge, LoadSet
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.variants import is_for_other_framework
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.interfaces import definers

_GROUP = "cuda"  # of symbols that the audit looks for


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find strong undefined CUDA functions that no library loaded with the calling object defines.

    A required package such as torch may have loaded any library before, and an unknown library may define any function.
    Functions that the wheel defines itself count as found, such as trampolines to libraries that it opens.
    """
    for wheel in graph.wheels:
        if any(known.loaded_by for known in graph.declared[wheel.name].values()):
            continue
        for found in (
            o
            for o in wheel.objects
            if o.links and o.undefined(_GROUP) and not is_for_other_framework(graph, o)
        ):
            sets = [load_set for load_set in graph.load_sets if found in load_set.objects]
            missing = _missing(graph, wheel, found, sets)
            for library in sorted({definers(name)[0] for name in missing}):
                called = sorted(name for name in missing if definers(name)[0] == library)
                yield _finding(found, library, called, sets)


RULE = Rule(
    code="GF215",
    severity="error",
    title="functions of CUDA are called, and no NEEDED library defines them",
    check=check,
    applies_to=PACKAGES,
)


def _missing(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject, sets: Iterable[LoadSet]) -> set[str]:
    """Return the functions that nothing defines; none if an unknown library is loaded, too."""
    objects = {(o.wheel, o.file): o for load_set in sets for o in load_set.objects} or {("", ""): binary}
    edges = [edge for each in objects.values() for edge in graph.from_object(each)]
    if any(_is_unknown(edge) for edge in edges):
        return set()
    offered = {name for each in objects.values() for name in each.defined(_GROUP)}
    there = {name for edge in edges for name in _with(edge.needed)}
    there |= {name for each in objects.values() for name in (_stem(each.soname), _stem(each.name))}
    return {
        name
        for name in binary.undefined(_GROUP) - offered
        if there.isdisjoint(definers(name)) and not _loaded_by_code(wheel, definers(name))
    }


def _is_unknown(edge: Edge) -> bool:
    known = edge.provider.object is not None or edge.provider.source in {"system", "driver"}
    return not known and not package_tables.of_toolkit(edge.needed)


def _with(soname: str) -> Iterator[str]:
    """Yield a library, and those of the packages that its own package requires and may load."""
    yield _stem(soname)
    for entry in libraries.by_soname(sonames.plain_name(soname)):
        for package in entry.requires:
            yield from (f"lib{name}.so" for name in package_tables.stems(package))


def _stem(name: str) -> str:
    """Return a library's name without its version and its hash: "libcudart.so"."""
    return f"{sonames.stem(sonames.plain_name(name))}.so"


def _loaded_by_code(wheel: WheelFacts, names: Iterable[str]) -> bool:
    """Return whether Python code of the wheel loads such a library, so that its functions may be found later.

    If it opens one by its bare name, whether the linker finds that is reported as GF208.
    """
    unknown = (p.everything or p.pathfinder or p.folders for p in wheel.preloads if not p.bare)
    return any(unknown) or any(p.may_open(*names) for p in wheel.preloads)


def _finding(binary: ElfObject, library: str, called: list[str], sets: Iterable[LoadSet]) -> Finding:
    first = any(load_set.root.is_program or load_set.root.is_python_module for load_set in sets)
    return RULE.finding(
        binary.wheel,
        severity="error" if first else "warning",
        files=(binary.file,),
        subjects=(
            Subject(
                file=binary.file,
                detail="does not NEED {library}, and calls",
                facts=facts_of(library=library),
                kind="calls",
                about=(library,),
                names=tuple(called),
            ),
        ),
        what="Objects call CUDA functions that no library loaded with them defines.",
        why="The import, or the first call, fails with `undefined symbol`.",
        fix="Link with the library (-lcudart, CUDA::cudart), or open it with dlopen. -Wl,-z,defs lists "
        "the missing symbols.",
    )
