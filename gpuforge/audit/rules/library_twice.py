"""GF108: a library of the wheel that is there twice, once under a hashed name."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.known import sha256
from gpuforge.audit.model import ElfObject, Finding, Severity, WheelFacts
from gpuforge.audit.rules.cudart_static import of_nvidia
from gpuforge.audit.rules.rule import names
from gpuforge.toolkits import libraries

CODE = "GF108"
SEVERITY: Severity = "error"
TITLE = "a library is in the wheel twice, under its own name and as a grafted copy"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find hashed copies of a library that the wheel has under its own name too, both with users in the wheel.

    Across the wheels given: copies that are byte for byte a library of NVIDIA's packages.
    """
    for wheel in graph.wheels:
        plain = {o.name: o for o in wheel.objects if o.links and libraries.plain_name(o.name) == o.name}
        for copy in (o for o in wheel.objects if o.links):
            original = plain.get(libraries.plain_name(copy.name))
            if original is not None and original is not copy and graph.users(copy) and graph.users(original):
                yield _twice(graph, copy, original)
    yield from _across(graph)


def _twice(graph: LinkGraph, copy: ElfObject, original: ElfObject) -> Finding:
    def line(found: ElfObject) -> str:
        return f"{found.file}, loaded by {names(e.loader for e in graph.users(found))}"

    return Finding(
        CODE,
        SEVERITY,
        copy.wheel,
        files=(original.file, copy.file),
        subject=(line(original), line(copy)),
        message="a library is in the wheel twice, under its own name and as a grafted copy: what is loaded with the "
        "one works on other data than what is loaded with the other",
        remedy="link all objects of the wheel with the one library (a RUNPATH relative to $ORIGIN before "
        "auditwheel repair, and --exclude for it)",
    )


def _across(graph: LinkGraph) -> Iterator[Finding]:
    owners: dict[str, tuple[WheelFacts, ElfObject]] = {}
    for wheel in graph.wheels:
        for found in wheel.objects:
            if found.links and wheel.project.startswith("nvidia-") and (digest := sha256(wheel, found.file)):
                owners.setdefault(digest, (wheel, found))
    for wheel in graph.wheels:
        for found in wheel.objects:
            owner, original = owners.get(sha256(wheel, found.file), (wheel, found))
            if owner.name == wheel.name or not of_nvidia(graph, found):
                continue
            yield Finding(
                CODE,
                "warning",
                wheel.name,
                files=(found.file,),
                subject=(f"{found.file} is {original.file} of {owner.name}",),
                message="libraries are byte for byte those of NVIDIA's own packages: both images come into a process "
                "that uses both",
                remedy="exclude them from the graft, and require the package",
            )
