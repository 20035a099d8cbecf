"""GF403: GPUs newer than the machine code, and no PTX for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpuforge.audit.findings import Facts, Finding, Severity, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.reach import Reach, reach
from gpuforge.audit.rules.gpu_code.containers import is_specific, own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import DeviceCode
from gpuforge.binary.runnable import bearing_ptx, not_linked, portable_ptx, runnable

_NO_IMAGE = "`no kernel image is available for execution on the device`"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find files without kernels for newer generations: a warning for GPUs of today, for information for later ones.

    An error if the whole wheel has nothing for any GPU of a generation.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is not None and expectation.cubins:
            continue  # GF401 and GF402 compare with the manifest instead
        processor = wheel.machine
        supported = {
            r.generation.family
            for code in own_code(wheel)
            for r in reach(code, processor)
            if r.native or r.jit
        }
        for code in own_code(wheel):
            if code.file.endswith(".cubin"):
                continue  # one target each; the program chooses one of these files by name
            judged, inputs = runnable(code.containers)
            if not judged or all(is_specific(c) for c in judged):
                continue
            if all(map(portable_ptx, bearing_ptx(judged, inputs))) and not not_linked(judged, inputs):
                continue
            yield from _judge(wheel, code, processor, supported)


RULE = Rule(
    code="GF403",
    severity="error",
    title="newer GPUs cannot run the kernels: there is no PTX",
    check=check,
)


def _judge(
    wheel: WheelFacts, code: DeviceCode, processor: str, supported: Collection[str]
) -> Iterator[Finding]:
    table = reach(code, processor)
    first = next((i for i, r in enumerate(table) if r.way != "none"), len(table))
    lost = [r for r in table[first:] if r.way == "none"]
    if lost:
        whole = wheel.form in PACKAGES  # other files may have the rest
        missing = dict.fromkeys(f for r in lost if whole and (f := r.generation.family) not in supported)
        yield _finding(
            wheel,
            code,
            "error" if missing else "warning",
            tuple(missing),
            "{archs}; nothing for {lacking:GPUs}",
            facts_of(archs=_archs(code), lacking=_gpus(lost)),
            f"The wheel has neither machine code nor PTX for {' or '.join(missing)} GPUs."
            if missing
            else "Kernels have neither machine code nor PTX for newer GPUs.",
            f"A launch fails there with {_NO_IMAGE}.",
        )
    elif any(r.way == "partly" for r in table[first:]):
        partly = [r for r in table[first:] if r.way == "partly"]
        worst = max(partly, key=lambda r: r.none)
        yield _finding(
            wheel,
            code,
            "info",
            ("some containers",),
            "some fatbin containers do not run on {lacking:GPUs}: at most {count} of {total}, on {worst}",
            facts_of(
                lacking=_gpus(partly),
                worst=worst.generation.capability,
                count=worst.none,
                total=worst.none + worst.native + worst.jit,
            ),
            "Some kernels have no code for GPUs that other kernels in the same file support.",
            f"A launch of such a kernel fails there with {_NO_IMAGE}.",
        )
    else:
        yield _finding(
            wheel,
            code,
            "info",
            ("future GPUs",),
            "{archs}",
            facts_of(archs=_archs(code)),
            "Some kernels have no PTX for future GPUs.",
            f"A launch on a GPU of a later generation fails with {_NO_IMAGE}.",
        )


def _archs(code: DeviceCode) -> tuple[str, ...]:
    judged, _ = runnable(code.containers)
    every = sorted({e.arch for c in judged for e in c.entries if e.kind == "cubin"})
    return tuple(arch.sm for arch in every)


def _gpus(table: Sequence[Reach]) -> tuple[tuple[str, str], ...]:
    return tuple((r.generation.capability, r.generation.name) for r in table)


def _finding(
    wheel: WheelFacts,
    code: DeviceCode,
    severity: Severity,
    cause: tuple[str, ...],
    detail: str,
    facts: Facts,
    what: str,
    why: str,
) -> Finding:
    return RULE.finding(
        wheel.name,
        severity=severity,
        files=(code.file,),
        subjects=(Subject(file=code.file, detail=detail, facts=facts),),
        cause=cause,
        what=what,
        why=why,
        fix="Add PTX of the newest architecture (-gencode arch=compute_X,code=compute_X), or machine "
        "code for the missing GPUs.",
    )
