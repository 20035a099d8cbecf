"""GF402: PTX that is declared but not embedded."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import coverage, own_code, to_compare
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import FatbinContainer
from gpuforge.binary.runnable import bearing_ptx, complete_ptx
from gpuforge.runtime.arch import Arch


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each container with the manifest's PTX.

    Relocatable device code keeps its PTX in the inputs of the device link, not in the result (nvcc manual, "Using
    Separate Compilation in CUDA"). There the inputs are judged, and the containers with PTX of their own.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or not expectation.ptx:
            continue
        for code in own_code(wheel):
            judged = bearing_ptx(*to_compare(expectation, code))
            for arch in expectation.ptx:
                lacking = sum(not _has(c, arch) for c in judged)
                if lacking:
                    detail, facts = coverage(len(judged) - lacking, len(judged))
                    yield RULE.finding(
                        wheel.name,
                        files=(code.file,),
                        subjects=(
                            Subject(file=code.file, item=arch.compute, detail="PTX " + detail, facts=facts),
                        ),
                        what="Declared PTX is missing in the wheel.",
                        why="GPUs newer than the architectures in the wheel cannot run these kernels.",
                        fix="Compile with -gencode arch=compute_X,code=compute_X, too (CMAKE_CUDA_ARCHITECTURES: "
                        "X-virtual).",
                    )


RULE = Rule(
    code="GF402",
    severity="error",
    title="the declared PTX is not in every fatbin container",
    check=check,
)


def _has(container: FatbinContainer, arch: Arch) -> bool:
    return any(e.arch == arch for e in complete_ptx(container))
