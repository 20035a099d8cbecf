"""GF104: libraries of two CUDA majors in one process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.cuda_tools import is_tool
from gpuforge.audit.rules.runtimes.cudart import loaded_cudarts
from gpuforge.audit.rules.runtimes.loaded import How, LoadedLibrary, loaded_libraries
from gpuforge.audit.rules.runtimes.own_runtimes import own_runtimes
from gpuforge.audit.rules.runtimes.processes import Process, processes
from gpuforge.cuda import sonames

_OF_CUDA = r"(?i)(nvidia|cuda|cutensor)[-_.]"

_HOW: dict[How, str] = {"linked": "", "static": "linked statically", "opened": "opened at run time"}

_ByMajor = dict[int, dict[str, LoadedLibrary]]  # major -> SONAME


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the majors of the CUDA libraries that one process loads, by SONAMEs that only one major has."""
    reported: set[frozenset[tuple[int, str]]] = set()
    reported_wheels: set[str] = set()  # the wheels whose objects are reported to meet
    for process in processes(graph):
        found = _majors(graph, process)
        if len(found) < 2:
            continue
        key = frozenset((major, name) for major, names in found.items() for name in names)
        if any(key <= known for known in reported):
            continue
        reported.add(key)
        reported_wheels.update(o.wheel for o in process.objects)
        yield _finding(process, found)
    yield from _required(graph, reported_wheels)


RULE = Rule(
    code="GF104",
    severity="error",
    title="libraries of two CUDA majors would be loaded into one process",
    check=check,
    of_process=True,
)


@cache
def major_of(soname: str) -> int | None:
    """Return the only CUDA major that has a library of this SONAME; None for several or none."""
    plain = sonames.plain_name(soname)
    majors = {library.cuda for library in package_tables.candidates(plain)}
    return majors.pop() if len(majors) == 1 and package_tables.other_majors(plain) else None


def _has_major(soname: str) -> bool:
    return major_of(soname) is not None


def _majors(graph: LinkGraph, process: Process) -> _ByMajor:
    found: _ByMajor = {}
    every = loaded_libraries(graph, process.objects, _has_major)
    own = own_runtimes(graph, process.objects) if process.across else ()
    for copy in (*every, *loaded_cudarts(graph, process.objects), *own):
        major = major_of(copy.soname)
        of_major = found.setdefault(major, {}) if major is not None else {}
        # a libcudart is there twice, once under its major only
        if all(
            (copy.origin, copy.requested) != (other.origin, other.requested) for other in of_major.values()
        ):
            of_major.setdefault(copy.soname, copy)
    return found


def _required(graph: LinkGraph, reported_wheels: set[str]) -> Iterator[Finding]:
    """Find required packages for two CUDA majors, or for another major than the wheel's own libraries.

    Python code imports them into one process.

    A NEEDED library of another major is reported as GF204. A wheel that requires both majors by name chooses one at run
    time.
    """
    brought = {wheel.name: _brought(graph, wheel) for wheel in graph.wheels}
    both = {wheel.project for wheel in graph.wheels if len(brought[wheel.name]) > 1}
    for wheel in graph.wheels:
        majors = brought[wheel.name]
        if (
            len(majors) < 2
            or wheel.name in reported_wheels
            or any(d.package in both - {wheel.project} for d in graph.required_always(wheel.name))
        ):
            continue  # reported for the required wheel that brings both
        needed = {
            package_tables.major(e.provider.package) for e in graph.of(wheel) if e.provider.declared is None
        }
        chosen = all(lines and re.match(_OF_CUDA, lines[0]) for by in majors.values() for lines in by)
        if not chosen and not needed & majors.keys():
            yield RULE.finding(
                wheel.name,
                severity="warning",
                subjects=tuple(
                    Subject(
                        item=f"CUDA {cuda}",
                        detail="{packages:3}, by {requirements:lines}"
                        if lines
                        else "{libraries:3}, in the wheel",
                        facts=facts_of(packages=tuple(names), requirements=lines)
                        if lines
                        else facts_of(libraries=tuple(names)),
                        kind="packages",
                        about=tuple(sorted(names)),
                    )
                    for cuda, brought_by in sorted(majors.items())
                    for lines, names in brought_by.items()
                ),
                cause=("requirements",),
                what="The requirements bring libraries of two CUDA majors."
                if all(lines for by in majors.values() for lines in by)
                else "The requirements bring libraries of another CUDA major than the libraries in the wheel.",
                why="A process that imports both has two CUDA runtimes, and needs a driver for the newer one.",
                fix="Build for the CUDA major of the required package (torch), or limit its version to releases "
                "for this major.",
            )


def _brought(graph: LinkGraph, wheel: WheelFacts) -> dict[int, dict[tuple[str, ...], list[str]]]:
    """Return the packages of each CUDA major that are installed with a wheel, by the requirement lines that bring them.

    Packages with the same files are left out: an environment has only one of them (GF709). The wheel's own libraries,
    if all are of one major, are under no lines.
    """
    required = sorted(graph.required_always(wheel.name), key=lambda d: d.package)
    known = [d for d in required if package_tables.major(d.package) and not is_tool(d.package)]
    found: dict[int, dict[tuple[str, ...], list[str]]] = {}
    for one in known:
        cuda = package_tables.major(one.package)
        clash = any(
            package_tables.files(one.package) & package_tables.files(d.package) for d in known if d is not one
        )
        if cuda is not None and not clash:
            found.setdefault(cuda, {}).setdefault(one.lines, []).append(one.package)
    own = _own(graph, wheel) if found else {}
    if len(own) == 1:
        found.setdefault(next(iter(own)), {})[()] = [name for names in own.values() for name in names]
    return found


def _own(graph: LinkGraph, wheel: WheelFacts) -> dict[int, list[str]]:
    """Return the libraries of each CUDA major in the wheel, without tools, and objects with a runtime of their own."""
    found: dict[int, list[str]] = {}
    for runtime in own_runtimes(graph, wheel.objects):
        if (cuda := major_of(runtime.soname)) is not None:
            found.setdefault(cuda, []).append(runtime.loader)
    for name in sorted({o.name for o in wheel.objects if o.links}):
        cuda = major_of(name)
        packages = {library.package for library in package_tables.candidates(sonames.plain_name(name))}
        if cuda is not None and not all(map(is_tool, packages)):
            found.setdefault(cuda, []).append(name)
    return found


def _finding(process: Process, by_major: _ByMajor) -> Finding:
    wide = process.scope != "import"
    return RULE.finding(
        process.blamed([i.wheel for names in by_major.values() for i in names.values()]),
        across=process.across,
        severity="warning" if wide else "error",
        files=(process.root,) if process.root else (),
        subjects=tuple(
            Subject(
                item=f"CUDA {major}",
                library=copy.requested,
                detail=_HOW[copy.how],
                kind="" if copy.how == "linked" else copy.how,
                loaded_by=copy.loaders,
                imported_by=copy.importers,
                wheel=copy.wheel,
            )
            for major, names in sorted(by_major.items())
            for copy in names.values()
        ),
        what="Libraries of two CUDA majors come into one process if all these modules are imported."
        if wide
        else "One import loads libraries of two CUDA majors.",
        why="Each major has its own runtime, so library handles (cuBLAS, cuFFT) and kernels of one are invalid in "
        "the other.",
        fix="Build everything that is used together for one CUDA major, and limit the requirements to it.",
    )
