"""Findings of GF208 about Python code: libraries that it opens by bare names, and those of another CUDA major."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuforge.audit.findings import Finding, Severity, Subject, facts_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.installed import cuda_major
from gpuforge.audit.model import OpenedByName, Preload, WheelFacts
from gpuforge.audit.rules.runtimes.cuda_tools import is_tool
from gpuforge.cuda import sonames
from gpuforge.cuda.suffix import major_of_local, major_of_suffix

if TYPE_CHECKING:
    from gpuforge.audit.rules.rule import Rule

_PACKAGE = r"[^/]+\.py|[^/]+/__init__\.py"  # what `import NAME` runs


def opened_by_python(rule: Rule, graph: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find libraries that Python code opens by a bare name and that are not found, if the code does not handle that.

    A library is found if it is in the process: if other code opens it by its path, an object of the wheel finds it, or
    importing torch loads it.
    """
    for preload in wheel.preloads:
        for call in preload.by_name:
            if call.raises and len(call.names) == 1:
                yield from _by_name(rule, graph, wheel, preload, call)
    for preload in wheel.preloads:
        for soname in sorted(preload.sonames):
            if other := _other_major(graph, wheel, preload, soname):
                yield _of_other_major(rule, wheel, preload, soname, other)


def _by_name(
    rule: Rule, graph: LinkGraph, wheel: WheelFacts, preload: Preload, call: OpenedByName
) -> Iterator[Finding]:
    (name,) = call.names
    packages = {library.package for library in package_tables.candidates(name)}
    own = next((o for o in wheel.objects if o.links and o.name == name), None)
    if (own is None and not packages) or _is_loaded(graph, wheel, name, packages):
        return
    if own and any(user.route or user.preload for user in graph.users(own)):
        return
    declared = sorted(packages & graph.declared[wheel.name].keys())
    installed = own is not None or bool(declared)
    imported = call.imported and re.fullmatch(_PACKAGE, preload.file) is not None
    severity: Severity = "error" if imported else "warning"
    yield rule.finding(
        wheel.name,
        severity=severity,
        files=(preload.file,),
        subjects=(
            Subject(
                file=preload.file,
                library=name,
                provider=own.file if own else " or ".join(declared or sorted(packages)),
                kind="bare name",
            ),
        ),
        cause=("python", installed, imported),
        what="Python code opens these libraries by their bare names, and the dynamic linker does not search their "
        "folders."
        if installed
        else "Python code opens these libraries by their bare names, and no requirement installs them.",
        why="The import fails with an OSError."
        if imported
        else "The code fails with an OSError, unless something else has loaded the libraries before.",
        fix="Open the libraries by their paths: ctypes.CDLL with the path of the file or, for CUDA's, "
        "cuda.pathfinder.load_nvidia_dynamic_lib."
        if installed
        else "Declare the packages, and open the libraries by their paths: ctypes.CDLL with the path of the file, or "
        "cuda.pathfinder.load_nvidia_dynamic_lib.",
    )


def _is_loaded(graph: LinkGraph, wheel: WheelFacts, name: str, packages: set[str]) -> bool:
    """Return whether other code of the wheel, one of its objects, or the import of another package loads a library."""
    known = graph.declared[wheel.name]
    return (
        any(p.pathfinder or p.starts or p.opens(name) for p in wheel.preloads)
        or any(edge.needed == name and edge.route for edge in graph.of(wheel))
        or any(package in known and known[package].loaded_by for package in packages)
    )


def _other_major(graph: LinkGraph, wheel: WheelFacts, preload: Preload, soname: str) -> int | None:
    """Return the CUDA major of a library that code opens, if the wheel is for another major.

    Code that names the libraries of several majors, or composes their names, chooses among them.
    """
    stem = sonames.stem(soname)
    if not preload.opens(soname) and not any(soname in call.names for call in preload.by_name):
        return None
    libraries = package_tables.candidates(soname)
    majors = {library.cuda for library in libraries}
    major = majors.pop() if len(majors) == 1 and package_tables.other_majors(soname) else None
    if major is None or all(is_tool(library.package) for library in libraries):
        return None
    own = _majors(graph, wheel)
    named = {name for p in wheel.preloads for name in p.sonames if sonames.stem(name) == stem} - {soname}
    composed = any("{" in name for p in wheel.preloads for call in p.by_name for name in call.names)
    return None if not own or major in own or named or composed else major


def _majors(graph: LinkGraph, wheel: WheelFacts) -> set[int]:
    """Return the CUDA majors that a wheel is for: by what its objects NEED, what it requires, and its name."""
    found = {package_tables.major(package) for package in graph.declared[wheel.name]}
    found.add(cuda_major(name for o in wheel.objects for name in o.needed))
    found |= {major_of_suffix(wheel.project), major_of_local(wheel.version)}
    return {major for major in found if major}


def _of_other_major(rule: Rule, wheel: WheelFacts, preload: Preload, soname: str, major: int) -> Finding:
    return rule.finding(
        wheel.name,
        severity="warning",
        files=(preload.file,),
        subjects=(
            Subject(
                file=preload.file,
                library=soname,
                detail="of CUDA {major}",
                facts=facts_of(major=major),
                kind="other major",
            ),
        ),
        cause=("python", "other major"),
        what="Python code opens libraries of another CUDA major than that of the wheel.",
        why="Where they are not installed the code fails or does without them, and elsewhere two CUDA majors come into "
        "one process.",
        fix="Open the libraries of the wheel's own CUDA major.",
    )
