"""GF107: two C or C++ standard libraries in one process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.runtimes.loaded import (
    FIRST_WINS,
    SEVERAL_PLACES,
    LibraryOrigin,
    loaded_libraries,
    loads_only_one,
)
from gpuforge.audit.rules.runtimes.processes import processes
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames

_CXX = "libstdc++"  # the group of symbols that the audit looks for
_CXX_LIBRARIES = r"lib(stdc\+\+|supc\+\+|c\+\+|c\+\+abi)\."
# the parts of glibc and musl that are in every process
_C = r"ld-[\w-]+\.so(\.\d+)?|lib(c|m|dl|rt|pthread|mvec)(\.so\.\d|-2\.\d+\.so)|libc\.musl-\w+\.so(\.\d+)?"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find C and C++ standard libraries that one import loads in addition to those of the process."""
    yield from _of_cxx(graph)
    yield from _static(graph)
    yield from _of_c(graph)


RULE = Rule(
    code="GF107",
    severity="warning",
    title="two C or C++ standard libraries would be loaded into one process",
    check=check,
    of_process=True,
)


def _is_c(soname: str) -> bool:
    return re.fullmatch(_C, soname) is not None


def _is_cxx(soname: str) -> bool:
    return soname.startswith("libstdc++.so")


def _of_c(graph: LinkGraph) -> Iterator[Finding]:
    """Find parts of the C library in wheels: every process has all of them before it loads a module."""
    names = {sonames.plain_name(o.name) for w in graph.wheels for o in w.objects if o.links}
    if not any(map(_is_c, names)):
        return  # nearly all wheels have none
    for process in processes(graph):
        found = loaded_libraries(graph, process.objects, _is_c)
        for copy in (i for i in found if i.origin.source != "system"):
            if process.scope == "import" and copy.wheel == process.wheel:
                yield RULE.finding(
                    process.wheel,
                    files=(copy.origin.name,),
                    subjects=(copy.subject(),),
                    cause=("C library",),
                    what="The wheel contains a part of the C library.",
                    why="Every process has loaded the C library of the system, and parts of another version can "
                    "crash it.",
                    fix="Leave the C library out of the wheel: `auditwheel repair` does so.",
                )


def _static(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects that export a libstdc++ that is linked into them, where the process has a shared one.

    The dynamic linker binds what is inlined in one copy to the functions of the other.
    """
    reported: set[tuple[str, str]] = set()
    for process in processes(graph):
        static = [o for o in process.objects if o.defined(_CXX) and not _is_own(o)] if process.wheel else []
        shared = next((o.name for o in process.objects if any(map(_is_cxx, o.needed))), "")
        for found in static:
            beside = shared or _imported_before(graph, found.wheel)
            if beside and found.wheel == process.wheel and (found.wheel, found.file) not in reported:
                reported.add((found.wheel, found.file))
                yield RULE.finding(
                    found.wheel,
                    files=(found.file,),
                    subjects=(
                        Subject(
                            file=found.file,
                            detail="beside {beside}, which needs libstdc++.so.6; defines",
                            facts=facts_of(beside=beside),
                            kind="static C++",
                            names=tuple(sorted(found.defined(_CXX))),
                        ),
                    ),
                    cause=("static",),
                    what="A C++ library is linked into objects statically, and its symbols are exported.",
                    why="The shared libstdc++ is in the process, too, and functions of the two are mixed: exceptions, "
                    "locales and streams crash.",
                    fix="Link without -static-libstdc++, as the manylinux policies promise the library; or hide its "
                    "symbols: -Wl,--exclude-libs,ALL",
                )


def _is_own(binary: ElfObject) -> bool:
    """Return whether an object is a C++ library itself."""
    return re.match(_CXX_LIBRARIES, sonames.plain_name(binary.soname or binary.name)) is not None


def _imported_before(graph: LinkGraph, wheel: str) -> str:
    """Return the required package (torch) whose import loads C++ libraries into the process."""
    return next((d.loaded_by for d in graph.required_always(wheel) if d.loaded_by), "")


def _of_cxx(graph: LinkGraph) -> Iterator[Finding]:
    """Count the copies of libstdc++ that one import loads; libc++ shares no symbol with it."""
    reported: list[set[LibraryOrigin]] = []
    for process in processes(graph):
        found = loaded_libraries(graph, process.objects, _is_cxx)
        origins = {i.origin for i in found}
        if process.scope == "environment" or len(origins) < 2 or any(origins <= known for known in reported):
            continue
        reported.append(origins)
        one = loads_only_one(found)
        yield RULE.finding(
            process.wheel,
            severity="info" if one else "warning",
            files=tuple(dict.fromkeys(i.loader for i in found if i.wheel == process.wheel and i.loader)),
            subjects=tuple(i.subject() for i in found),
            what=SEVERAL_PLACES if one else "Several copies of libstdc++ come into one process.",
            why=FIRST_WINS
            if one
            else "Exceptions, locales and streams that cross from one copy to the other fail.",
            fix="Graft one libstdc++ for all objects, as auditwheel repair does for musllinux tags: systems with musl "
            "may lack it."
            if any(tag.startswith("musllinux") for tag in graph.wheel(process.wheel).platforms)
            else "Use the system's libstdc++, which the manylinux policies promise, for all objects: "
            "auditwheel repair --exclude libstdc++.so.6",
        )
