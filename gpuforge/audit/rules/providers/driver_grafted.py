"""GF207: the driver's own libraries, or stubs of them, inside a wheel."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, sonames


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find files with a driver library's name; stubs in a folder of that name are only for linkers."""
    for wheel in graph.wheels:
        drivers = [o for o in wheel.objects if o.links and _is_driver(graph, o)]
        called = (o.name if libraries.is_driver(o.name) else o.soname for o in drivers)
        names = sorted({sonames.unversioned(sonames.plain_name(name)) for name in called})
        excluded = " ".join(f"--exclude '{name}*'" for name in names)
        for found in drivers:
            yield RULE.finding(
                wheel.name,
                files=(found.file,),
                subjects=(Subject(file=found.file),),
                what="Libraries of the NVIDIA driver, or stubs of them, are in the wheel.",
                why="They must match the kernel module of the user's machine, and every call to a stub fails.",
                fix=f"Leave them out: auditwheel repair {excluded}",
                cause=tuple(names),
            )


RULE = Rule(
    code="GF207",
    severity="error",
    title="a library of the driver, or a stub of it, is in the wheel",
    check=check,
    applies_to=PACKAGES,
)


def _is_driver(graph: LinkGraph, binary: ElfObject) -> bool:
    stub = "/stubs/" in binary.file and not graph.users(binary)
    return not stub and (libraries.is_driver(binary.name) or libraries.is_driver(binary.soname))
