"""GF401: architectures that are declared but not embedded."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.gpu_code.containers import coverage, has_kernels, of_archs, to_compare
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import DeviceCode
from gpuforge.runtime.arch import Arch


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each container with the manifest's architectures; a union over containers proves nothing.

    A container with PTX or LTO-IR only lacks all of them.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or not (expectation.cubins or expectation.ptx):
            continue
        own = list(of_archs(expectation, wheel))
        if not any(map(has_kernels, own)) and (expectation.kernel_sets or not expectation.source_sets):
            yield _nothing(wheel)  # sources are compiled elsewhere
        for code in own:
            judged, _ = to_compare(expectation, code)
            for arch in expectation.cubins:
                lacking = sum(arch not in c.cubins for c in judged)
                if lacking:
                    yield _lacking(wheel, code, arch, lacking, len(judged))


RULE = Rule(
    code="GF401",
    severity="error",
    title="a declared GPU architecture is not in every fatbin container",
    check=check,
)


def _lacking(wheel: WheelFacts, code: DeviceCode, arch: Arch, lacking: int, total: int) -> Finding:
    detail, facts = coverage(total - lacking, total)
    return RULE.finding(
        wheel.name,
        files=(code.file,),
        subjects=(Subject(file=code.file, item=arch.sm, detail=detail, facts=facts),),
        what="Declared GPU architectures are missing in the wheel.",
        why="GPUs of these architectures run the kernels by JIT compilation of PTX, or not at all.",
        fix="Pass the declared architectures to the build (CMAKE_CUDA_ARCHITECTURES), or declare the "
        "architectures that it uses.",
    )


def _nothing(wheel: WheelFacts) -> Finding:
    return RULE.finding(
        wheel.name,
        subjects=(Subject(detail="the whole wheel"),),
        cause=("nothing",),
        what="The manifest declares GPU architectures, and the wheel contains no GPU code of its own.",
        why="Users get a package without kernels: some builds skip them without an error when they find "
        "no compiler.",
        fix="Check in the log of the host build that it compiles its kernels. For a package without "
        "kernels, write archs = [] in its [cuda.*] tables.",
    )
