"""GF401: architectures that are declared and not embedded."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.gpu_code.containers import has_kernels, own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.runnable import runnable
from gpuforge.binary.facts import DeviceCode


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each container with the manifest's architectures; a union over containers proves nothing.

    One of PTX alone lacks them all.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or not expectation.cubins:
            continue
        own = list(own_code(wheel))
        if not any(map(has_kernels, own)) and (expectation.kernel_sets or not expectation.source_sets):
            yield _nothing(wheel)  # sources are compiled elsewhere
        for code in own:
            judged, _ = runnable(code.containers)
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


def _lacking(wheel: WheelFacts, code: DeviceCode, arch: str, lacking: int, total: int) -> Finding:
    count = "no container" if lacking == total else f"only {total - lacking} of {total} containers"
    return RULE.finding(
        wheel.name,
        files=(code.file,),
        subjects=(Subject(file=code.file, item=arch, detail=f"in {count}"),),
        message="architectures that are declared are not embedded: such a GPU runs these kernels by JIT from "
        "PTX, or not at all",
        remedy="see that the build passes the declared architectures on (CMAKE_CUDA_ARCHITECTURES), or declare those "
        "that it has",
    )


def _nothing(wheel: WheelFacts) -> Finding:
    return RULE.finding(
        wheel.name,
        subjects=(Subject(detail="the whole wheel"),),
        message="GPU architectures are declared and the wheel has no GPU code of its own: some builds leave it "
        "out without an error when they find no compiler",
        remedy="see in the log of the host build that it compiles its kernels; for a package that has none, write "
        "archs = [] in its [cuda.*] tables",
    )
