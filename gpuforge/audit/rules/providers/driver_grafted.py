"""GF207: the driver's own libraries, or stubs of them, inside a wheel."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.cuda import libraries


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find files with a driver library's name; stubs in a folder of that name are only for linkers."""
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links):
            if not (libraries.is_driver(found.name) or libraries.is_driver(found.soname)):
                continue
            if "/stubs/" in found.file and not graph.users(found):
                continue
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(Subject(file=found.file),),
                what="Libraries of the NVIDIA driver, or stubs of them, are in the wheel.",
                why="They must match the kernel module of the user's machine, and every call to a stub fails.",
                fix="Leave them out: auditwheel repair --exclude libcuda.so.1 --exclude libnvidia-ml.so.1",
            )


RULE = Rule(
    code="GF207",
    severity="error",
    title="a library of the driver, or a stub of it, is in the wheel",
    check=check,
    applies_to=PACKAGES,
)
