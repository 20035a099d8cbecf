"""GF409: GPU code that the manifest does not declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import of_archs
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import DeviceCode
from gpuforge.binary.runnable import complete_ptx, runnable
from gpuforge.cuda.arch import Arch


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find GPU code where the manifest declares none, and architectures that it does not list.

    With CUDA's static libraries (`linkage = "static"`) containers also have the architectures that NVIDIA chose.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or not (expectation.no_code or expectation.exact):
            continue
        declared = frozenset() if expectation.no_code else _images(expectation.cubins, expectation.ptx)
        for code in of_archs(expectation, wheel):
            for target, count, total in _undeclared(code, declared):
                yield RULE.finding(
                    wheel.name,
                    severity="error" if expectation.no_code else "warning",
                    files=(code.file,),
                    subjects=(
                        Subject(
                            file=code.file,
                            item=target,
                            detail="in {count} of {total} containers",
                            facts=facts_of(count=count, total=total),
                        ),
                    ),
                    what="The wheel contains GPU code, and the manifest declares none (archs = [])."
                    if expectation.no_code
                    else "The wheel has GPU code for architectures that the manifest does not declare.",
                    why="Users download GPU code that nobody meant to ship."
                    if expectation.no_code
                    else "The wheel is larger than necessary, and runs on GPUs that nobody tested.",
                    fix="List the architectures in [cuda.*] archs, or keep the code out of the wheel."
                    if expectation.no_code
                    else "List them in [cuda.*] archs or ptx, or stop the build from adding architectures of its own "
                    "(CMAKE_CUDA_ARCHITECTURES).",
                )


RULE = Rule(
    code="GF409",
    severity="error",
    title="GPU code that the manifest does not declare",
    check=check,
)


def _images(cubins: Iterable[Arch], ptx: Iterable[Arch]) -> frozenset[tuple[str, Arch]]:
    return frozenset((*(("cubin", arch) for arch in cubins), *(("ptx", arch) for arch in ptx)))


def _undeclared(code: DeviceCode, declared: frozenset[tuple[str, Arch]]) -> Iterator[tuple[str, int, int]]:
    """Yield each undeclared architecture, the number of containers with code for it, and of all containers."""
    judged, inputs = runnable(code.containers)
    containers = [*judged, *inputs]
    counts = Counter(
        image
        for container in containers
        for image in _images(container.cubins, (e.arch for e in complete_ptx(container)))
    )
    for (kind, arch), count in sorted(counts.items()):
        if (kind, arch) not in declared:
            yield arch.of_image(kind), count, len(containers)
