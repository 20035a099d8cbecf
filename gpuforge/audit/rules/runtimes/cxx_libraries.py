"""GF107: two C or C++ standard libraries in one process."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.findings import Finding
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
from gpuforge.cuda import sonames

# the parts of glibc and musl that are in every process
_C = r"ld-[\w-]+\.so(\.\d+)?|lib(c|m|dl|rt|pthread|mvec)(\.so\.\d|-2\.\d+\.so)|libc\.musl-\w+\.so(\.\d+)?"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find C and C++ standard libraries that one import loads in addition to those of the process."""
    yield from _of_cxx(graph)
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
