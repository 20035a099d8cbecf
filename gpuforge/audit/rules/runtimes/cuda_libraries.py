"""GF109: several copies of one CUDA library in one process."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from gpuforge.audit.findings import Finding
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.cuda_tools import is_tool
from gpuforge.audit.rules.runtimes.loaded import (
    LibraryOrigin,
    LoadedLibrary,
    loaded_libraries,
    loads_only_one,
)
from gpuforge.audit.rules.runtimes.processes import Process, processes
from gpuforge.audit.rules.variants import variant_family
from gpuforge.cuda import carriers
from gpuforge.cuda.libraries import is_cudart


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of each CUDA library in every process.

    Copies of libcudart are reported as GF102, a wheel's own library beside a grafted copy as GF108.
    """
    reported: list[set[LibraryOrigin]] = []
    members = {wheel.name: wheel.members for wheel in graph.wheels}
    for process in processes(graph):
        by_name: dict[str, list[LoadedLibrary]] = {}
        for library in loaded_libraries(graph, process.objects, _counts):
            by_name.setdefault(library.soname, []).append(library)
        for soname, own in by_name.items():
            found = [*own, *_imported(graph, process, soname, own)]
            origins = {i.origin for i in found}
            # one name in several wheels, some of which open it by a path that is not known
            unsure = process.scope == "environment" and len({i.requested for i in found}) == 1
            files = {i.file for i in found}
            inside = files <= members.get(process.wheel, {}).keys() and any(
                posixpath.basename(file) == soname for file in files
            )
            known = unsure or inside or loads_only_one(found) or any(origins <= known for known in reported)
            if len(origins) > 1 and not known:
                reported.append(origins)
                yield _finding(process, soname, found)


RULE = Rule(
    code="GF109",
    severity="warning",
    title="a CUDA library would be loaded into one process several times",
    check=check,
    of_process=True,
)


def _counts(soname: str) -> bool:
    """Return whether two copies of a library of this name each have a state of their own: tools have none."""
    packages = {library.package for library in package_tables.candidates(soname)}
    return not is_cudart(soname) and any(
        package in carriers.nvidia_packages() and not is_tool(package) for package in packages
    )


def _imported(
    graph: LinkGraph, process: Process, soname: str, own: list[LoadedLibrary]
) -> Iterator[LoadedLibrary]:
    """Yield the library that importing a package (torch) has loaded, if no object requests it by its plain name."""
    if any(i.requested == soname for i in own):
        return
    packages = {library.package for library in package_tables.candidates(soname)}
    for found_object in process.objects:
        imported = {e.imported_unseen for e in graph.from_object(found_object)} - {""}
        if not imported or variant_family(found_object):
            continue
        for known in graph.declared[found_object.wheel].values():
            if known.package in packages and known.loaded_by in imported:
                origin = LibraryOrigin("package", known.package)
                yield LoadedLibrary(origin, soname, found_object.wheel, "", soname, imported=known.loaded_by)
                return


def _finding(process: Process, soname: str, libraries: list[LoadedLibrary]) -> Finding:
    return RULE.finding(
        process.blamed([i.wheel for i in libraries]),
        across=process.across,
        severity="warning" if process.scope == "import" else "info",
        files=(process.root,) if process.root else (),
        subjects=tuple(i.subject(item=soname) for i in libraries),
        what="One import loads several copies of a CUDA library."
        if process.scope == "import"
        else "Modules that are imported together load several copies of a CUDA library.",
        why="Each copy takes its own GPU memory, and handles and communicators of one are invalid in the "
        "other.",
        fix="Leave CUDA libraries out of the wheel (auditwheel repair --exclude NAME), and require the "
        'packages that bring them. gpuforge build with linkage = "pip" does both.',
    )
