"""GF302: search paths of the machine that built the wheel."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.route import Route
from gpuforge.audit.rules.loading import may_be_loaded
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.audit.rules.variants import is_for_other_framework
from gpuforge.binary.facts import ElfObject

_ANYBODYS = ("/tmp/", "/var/tmp/", "/dev/shm/")  # noqa: S108 - nothing is written there


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find absolute entries: an error if only the build machine's folder can have had a NEEDED library.

    Folders that every user of a machine can make are errors, too. Entries without which all libraries are found are a
    warning.
    """
    for found in (o for wheel in graph.wheels for o in wheel.objects if o.links):
        for way in layout.written(found):
            if not way.entry.startswith("/"):
                continue
            lost = _lost(graph, found)
            if f"{way.entry}/".startswith(_ANYBODYS):
                yield _finding(found, way, _WRITABLE)
            elif way.entry.startswith(layout.SHARED):
                is_needed = any(e.provider.source in ("package", "nobody") for e in graph.from_object(found))
                yield _finding(found, way, _SYSTEM._replace(severity="warning") if is_needed else _SYSTEM)
            elif lost and not is_for_other_framework(graph, found):
                yield _finding(found, way, _ONLY_THERE, lost)
            else:
                yield _finding(found, way, _UNUSED)


RULE = Rule(
    code="GF302",
    severity="error",
    title="an RPATH or RUNPATH entry is an absolute path",
    check=check,
    contradicts="providers",
)


_FIX = "Replace them with paths relative to $ORIGIN, or remove them: patchelf --set-rpath '$ORIGIN/…' FILE"
_SYSTEM = Text(
    "Search paths lead to folders of the system.",
    "Libraries there are loaded instead of those that pip installed.",
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
_ONLY_THERE = Text(
    "Search paths lead to folders of the build machine, and no other path leads to the NEEDED libraries.",
    "On other machines the import fails.",
    _FIX,
)


def _lost(graph: LinkGraph, binary: ElfObject) -> tuple[str, ...]:
    """Return the NEEDED libraries that are neither on the object's own search paths nor on the system.

    Single binaries declare nothing: only libraries beside them count as found.
    """
    form = graph.wheel(binary.wheel).form
    others = ("sibling", "package") if form in PACKAGES else ()
    return tuple(
        edge.needed
        for edge in graph.from_object(binary)
        if not (edge.route and (edge.route.is_path or edge.route.kind == "loaded"))
        and (
            edge.provider.source in others
            or (edge.provider.source == "wheel" and not may_be_loaded(graph, edge))
        )
    )


def _finding(binary: ElfObject, way: Route, text: Text, lost: tuple[str, ...] = ()) -> Finding:
    return RULE.finding(
        binary.wheel,
        **text._asdict(),
        files=(binary.file,),
        subjects=(
            Subject(
                file=binary.file,
                item=way,
                detail="needed for {libraries}" if lost else "",
                facts=facts_of(libraries=lost) if lost else (),
            ),
        ),
        cause=(text.what,),
    )
