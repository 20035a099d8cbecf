"""GF302: search paths of the machine that built the wheel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.route import Route
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.binary.facts import ElfObject

_ANYBODYS = ("/tmp/", "/var/tmp/", "/dev/shm/")  # noqa: S108 - nothing is written there


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find absolute entries: an error for folders that every user of a machine can make.

    A folder of the build machine is not there for anybody else. Whether the libraries are found without it is what
    GF201 and GF202 judge, so here it is a warning.
    """
    for found in (o for wheel in graph.wheels for o in wheel.objects if o.links):
        for way in layout.written(found):
            if not way.entry.startswith("/"):
                continue
            if f"{way.entry}/".startswith(_ANYBODYS):
                yield _finding(graph, found, way, _WRITABLE)
            elif layout.is_shared(way.entry):
                yield _finding(graph, found, way, _of_system(graph, found, way))
            else:
                yield _finding(graph, found, way, _UNUSED)


RULE = Rule(
    code="GF302",
    severity="error",
    title="an RPATH or RUNPATH entry is an absolute path",
    check=check,
    contradicts="providers",
)


_FIX = "Replace them with paths relative to $ORIGIN, or remove them."
_FIRST = Text(
    "Search paths lead to folders of the system.",
    "Libraries there are loaded instead of those that pip installed.",
    _FIX,
    "warning",
)
_ONLY = Text(
    "Search paths lead to folders of the system, for libraries that nothing else brings.",
    "The libraries are found there if users have installed them, and nothing is loaded instead of what pip installed.",
    "None needed. Document what users have to install.",
    "info",
)
_SYSTEM = Text(
    "Search paths lead to folders of the system, and the libraries are found without them.",
    "Libraries there may be loaded instead of those in the system's own folders.",
    _FIX,
    "info",
)
_UNUSED = Text(
    "Search paths lead to folders of the build machine.",
    "On other machines they do not exist, or contain other files.",
    _FIX,
    "warning",
)
_WRITABLE = Text(
    "Search paths lead to folders that every user of a machine can create.",
    "Whoever creates one chooses the libraries that other users load.",
    _FIX,
)


def _of_system(graph: LinkGraph, binary: ElfObject, way: Route) -> Text:
    """Return the text for a folder of the system, by what the entries before it leave to be found."""
    before = [entry.route for entry in takewhile(lambda e: e.route != way, layout.search(binary, ()))]
    left = [edge for edge in graph.from_object(binary) if edge.route not in before]
    if any(_is_installed(graph, edge) for edge in left):
        return _FIRST
    return _ONLY if any(search_path.belongs_to_machine(graph, edge) for edge in left) else _SYSTEM


def _is_installed(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether the linker looks for a library that the wheel or a package has: none has loaded it before."""
    if search_path.belongs_to_machine(graph, edge) or (
        edge.route and edge.route.kind in {"import", "loaded"}
    ):
        return False
    return edge.provider.source in {"wheel", "sibling", "package"} and not edge.preload


def _finding(graph: LinkGraph, binary: ElfObject, way: Route, text: Text) -> Finding:
    return RULE.finding(
        binary.wheel,
        **text._asdict(),
        files=(binary.file,),
        subjects=(Subject(file=binary.file, item=way),),
        cause=(text.what,),
        commands=() if text is _ONLY else search_path.commands(graph, binary),
    )
