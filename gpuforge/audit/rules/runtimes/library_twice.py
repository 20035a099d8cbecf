"""GF108: a library that the wheel has twice, once under a hashed name."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.grafted_origin import sha256
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.nvidia import is_nvidia_library
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.suffix import is_of_nvidia


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find hashed copies of a library that the wheel also has under its own name, if objects of the wheel need both.

    Across the given wheels: copies with the same bytes as a library of NVIDIA's packages.
    """
    for wheel in graph.wheels:
        plain = [o for o in wheel.objects if o.links and sonames.plain_name(o.name) == o.name]
        originals = {o.soname or o.name: o for o in plain} | {o.name: o for o in plain}
        for copy in (o for o in wheel.objects if o.links and sonames.plain_name(o.name) != o.name):
            original = next((originals[n] for n in _names(copy) if n in originals), None)
            # a library is not linked with itself: an object that needs the copy has only its name
            if original is None or copy.name in original.needed:
                continue
            if graph.users(copy) and graph.users(original):
                yield _twice(graph, copy, original)
    yield from _across(graph)


RULE = Rule(
    code="GF108",
    severity="error",
    title="a library is in the wheel twice, under its own name and as a grafted copy",
    check=check,
    of_process=True,
)


def _names(copy: ElfObject) -> Iterator[str]:
    """Yield the possible names of the library that was copied: libx.so.26.10.00, libx.so.26.10, libx.so.26.

    auditwheel names a copy after the file with its versions, and rewrites its SONAME. A file with a version in its name
    has one in its SONAME, so libx.so is another library.
    """
    name = sonames.plain_name(copy.name)
    yield name
    while ".so." in (name := name.rpartition(".")[0]):
        yield name


def _twice(graph: LinkGraph, copy: ElfObject, original: ElfObject) -> Finding:
    def loaded(binary: ElfObject) -> Subject:
        return Subject(
            library=binary.file, loaded_by=tuple(dict.fromkeys(e.loader.name for e in graph.users(binary)))
        )

    return RULE.finding(
        copy.wheel,
        files=(original.file, copy.file),
        subjects=(loaded(original), loaded(copy)),
        what="A library is in the wheel twice: under its own name and as a grafted copy.",
        why="Objects that load one copy do not see the data of the other.",
        fix="Link all objects with one library: set a RUNPATH relative to $ORIGIN before `auditwheel "
        "repair`, and pass --exclude for the library.",
    )


def _across(graph: LinkGraph) -> Iterator[Finding]:
    alike: dict[str, list[tuple[WheelFacts, ElfObject]]] = {}
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and not o.is_program):
            if not found.is_python_module and (digest := sha256(wheel, found.file)):
                alike.setdefault(digest, []).append((wheel, found))
    for owners in alike.values():
        owner, original = min(owners, key=_ownership)
        for wheel, copy in owners:
            if wheel.project != owner.project and not _one_copy(graph, original, copy):
                yield _copied(graph, wheel, copy, owner, original)


def _ownership(owners: tuple[WheelFacts, ElfObject]) -> tuple[bool, bool]:
    """Order wheels with the same library: NVIDIA's own first, then those that have it under its own name."""
    wheel, found = owners
    return not is_of_nvidia(wheel.project), sonames.plain_name(found.name) != found.name


def _one_copy(graph: LinkGraph, original: ElfObject, copy: ElfObject) -> bool:
    """Return whether both are loaded as one: one file in the same place, or one SONAME to the linker."""
    if layout.install_path(copy.file) == layout.install_path(original.file):
        return True
    hashed = sonames.plain_name(copy.name) != copy.name
    same = copy.name == original.name and copy.soname == original.soname
    return same and (hashed or not is_nvidia_library(graph, copy))


def _copied(
    graph: LinkGraph, wheel: WheelFacts, copy: ElfObject, owner: WheelFacts, original: ElfObject
) -> Finding:
    runtime = is_nvidia_library(graph, copy) or libraries.compiler_runtime(copy.name) is not None
    return RULE.finding(
        wheel.name,
        severity="warning" if runtime else "info",
        files=(copy.file,),
        subjects=(
            Subject(
                file=copy.file,
                detail="{original} of {owner}",
                facts=facts_of(original=original.file, owner=owner.name),
            ),
        ),
        cause=("another package",),
        what="These libraries are byte for byte those of another package.",
        why="A process that uses both packages loads both copies.",
        fix="Leave them out of the wheel (auditwheel repair --exclude NAME), and require the package.",
    )
