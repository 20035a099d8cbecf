"""GF412: GPUs that one target more would cover."""

from collections.abc import Iterator

from gpuforge.audit.findings import Facts, Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.reach import reach
from gpuforge.audit.rules.containers import own_code
from gpuforge.audit.rules.rule import rule
from gpuforge.binary.facts import DeviceCode
from gpuforge.binary.runnable import complete_ptx, runnable
from gpuforge.cuda.releases import Generation, generations
from gpuforge.runtime.arch import Arch, binary_mismatch, ptx_mismatch


@rule(
    "GF412",
    "warning",
    "machine code leaves out a GPU that the target of a family would cover",
    why="A launch fails there with `no kernel image is available for execution on the device`.",
)
def family_left_out(graph: LinkGraph) -> Iterator[Finding]:
    """Find GPUs that only one kind of processor has beside it, as DGX Spark, and that share a family with others.

    GF403 leaves these alone: a wheel need not run on each board. A family's target costs a desktop GPU and such a
    board one image (CUDA C++ Programming Guide, "Family-Specific Features").
    """
    for wheel in graph.wheels:
        for code in own_code(wheel):
            for each in reach(code, wheel.machine):
                first = _first_of_family(each.generation)
                if not (first and each.none):
                    continue
                target = Arch(*first.number, "f")
                detail, facts = _cost(code, each.generation, target)
                yield family_left_out.finding(
                    wheel.name,
                    Subject(file=code.file, item=target.sm, detail=detail, facts=facts),
                    cause=(each.generation.capability,),
                    what=f"The GPU code leaves out {each.generation.gpu} ({each.generation.capability}).",
                    fix=f"Compile for {target.number} (CUDA 12.9 and newer: -gencode arch={target.compute},"
                    f"code={target.sm}). It covers {first.capability} and {each.generation.capability}.",
                )


def _first_of_family(generation: Generation) -> Generation | None:
    """Return the GPU for which the family's target is named, for a GPU that only some machines have; None otherwise."""
    if not generation.machines:
        return None
    major = generation.number[0]
    first = next(g for g in generations() if g.number[0] == major)
    covers = first != generation and binary_mismatch(Arch(*first.number, "f"), generation.number) is None
    return first if covers and major >= 10 else None


def _cost(code: DeviceCode, gpu: Generation, target: Arch) -> tuple[str, Facts]:
    """Return what the family's target costs in the containers without it: as much as their newest machine code.

    In the place of an `a` target of the family it costs nothing.
    """
    judged, _ = runnable(code.containers)
    lacking = [
        c
        for c in judged
        if all(binary_mismatch(a, gpu.number) for a in c.cubins)
        and all(ptx_mismatch(e.arch, gpu.number) for e in complete_ptx(c))
    ]
    cubins = [e for c in lacking for e in c.entries if e.kind == "cubin"]
    instead = sorted({e.arch for e in cubins if e.arch == target._replace(variant="a")})
    newest = max((e.arch for e in cubins), default=None)
    size = sum(e.stored for e in cubins if e.arch == newest)
    facts = facts_of(count=len(lacking), total=len(judged), size=size)
    if instead:
        return (
            f"{{count}} of {{total}} containers; {target.sm} in the place of {instead[0].sm} costs no bytes",
            facts,
        )
    return f"{{count}} of {{total}} containers; {target.sm} costs about {{size:KiB}} KiB", facts
