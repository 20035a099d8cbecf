"""GF501: a platform tag that promises more than the objects keep."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit import policy
from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity, WheelFacts

CODE = "GF501"
SEVERITY: Severity = "error"
TITLE = "the platform tag of the file name is not true"

_MACHINES = {
    3: "i686", 62: "x86_64", 183: "aarch64", 40: "armv7l", 22: "s390x", 21: "ppc64le", 243: "riscv64",
    258: "loongarch64",
}  # fmt: skip


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the symbol versions that each object wants with the strictest tag of the file name."""
    for wheel in graph.wheels:
        tags = [(tag, *policy.of_tag(tag)) for tag in wheel.platforms]
        promises = [(promised, tag, machine) for tag, promised, machine in tags if promised]
        if promises:
            promised, tag, machine = min(promises, key=lambda p: p[0].glibc)
            yield from _floor(wheel, promised, tag, machine)
        machines = {machine for _, _, machine in tags if machine}
        yield from _machine(wheel, machines)


def _floor(wheel: WheelFacts, promised: policy.Policy, tag: str, machine: str) -> Iterator[Finding]:
    objects = [o for o in wheel.objects if o.links]
    fitting = policy.fitting(objects, machine)
    really = (
        f"the tag that is true is {fitting.name}_{machine}" if fitting else "no manylinux policy has them all"
    )
    for found in objects:
        missing = promised.missing(found, machine)
        if missing:
            yield Finding(
                CODE,
                SEVERITY,
                wheel.name,
                files=(found.file,),
                subject=(f"{found.file} wants {', '.join(sorted(set(missing), key=_by_number))}",),
                message=f"the file name says {tag}, and objects want symbol versions that such a machine need not "
                f"have; {really}",
                remedy="build in the image of that policy, or let auditwheel repair choose the tag",
            )


def _machine(wheel: WheelFacts, machines: set[str]) -> Iterator[Finding]:
    if wheel.platforms == ("any",) and (bound := [o for o in wheel.objects if o.links]):
        yield Finding(
            CODE,
            "warning",
            wheel.name,
            files=tuple(o.file for o in bound),
            subject=tuple(f"{o.file} is for {_MACHINES.get(o.machine, 'one machine')}" for o in bound),
            message="the file name says that the wheel runs anywhere, and it has shared objects",
            remedy="tag it for its platform (auditwheel repair, or `wheel tags --platform-tag`)",
        )
    for found in (o for o in wheel.objects if o.links):
        actual = _MACHINES.get(found.machine)
        if machines and actual and actual not in machines:
            yield Finding(
                CODE,
                "warning",
                wheel.name,
                files=(found.file,),
                subject=(f"{found.file} is for {actual}",),
                message=f"the file name says {', '.join(sorted(machines))}, and objects are for another machine",
                remedy="leave out what cannot run there",
            )


def _by_number(version: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = version.partition("_")
    return name, tuple(int(n) if n.isdigit() else 0 for n in numbers.split("."))
