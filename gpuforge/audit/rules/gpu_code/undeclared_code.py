"""GF409: GPU code that the manifest does not declare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import of_archs
from gpuforge.audit.rules.rule import Rule, Text
from gpuforge.binary.facts import DeviceCode, FatbinContainer
from gpuforge.binary.runnable import compiled, complete_ptx
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from gpuforge.expectation import Expectation


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find GPU code where the manifest declares none, and architectures that it does not list.

    With CUDA's static libraries (`linkage = "static"`) containers also have the architectures that NVIDIA chose.
    """
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or not (expectation.no_code or expectation.exact):
            continue
        for code in of_archs(expectation, wheel):
            for target, count, total in _undeclared(code, expectation):
                yield RULE.finding(
                    wheel.name,
                    **(_NONE if expectation.no_code else _OTHERS)._asdict(),
                    files=(code.file,),
                    subjects=(
                        Subject(
                            file=code.file,
                            item=target,
                            detail="in {count} of {total} containers",
                            facts=facts_of(count=count, total=total),
                        ),
                    ),
                )


RULE = Rule(
    code="GF409",
    severity="error",
    title="GPU code that the manifest does not declare",
    check=check,
)


_NONE = Text(
    "The wheel contains GPU code, and the manifest declares none (archs = []).",
    "Users download GPU code that nobody meant to ship.",
    "List the architectures in [cuda.*] archs, or keep the code out of the wheel.",
    "error",
)
_OTHERS = Text(
    "The wheel has GPU code for architectures that the manifest does not declare.",
    "The wheel is larger than necessary, and runs on GPUs that nobody tested.",
    "List them in [cuda.*] archs or ptx, or stop the build from adding architectures of its own "
    "(CMAKE_CUDA_ARCHITECTURES).",
    "warning",
)


def _undeclared(code: DeviceCode, expectation: Expectation) -> Iterator[tuple[str, int, int]]:
    """Yield each undeclared architecture, the number of containers with code for it, and of all containers.

    LTO-IR and images of unknown kinds count only where no code is declared: no GPU runs them by themselves.
    """
    judged, inputs = compiled(code.containers)
    containers = [*judged, *inputs]
    counts = Counter(image for container in containers for image in _images(container))
    declared = {("cubin", arch) for arch in expectation.cubins} | {("ptx", arch) for arch in expectation.ptx}
    for (kind, arch), count in sorted(counts.items()):
        if expectation.no_code or (kind in {"cubin", "ptx"} and (kind, arch) not in declared):
            name = arch.of_image(kind) if kind in {"cubin", "ptx"} else f"{kind} {arch.compute}"
            yield name, count, len(containers)


def _images(container: FatbinContainer) -> set[tuple[str, Arch]]:
    """Return the kinds and architectures of a container's images, without empty PTX."""
    ptx = {e.arch for e in complete_ptx(container)}
    return {(e.kind, e.arch) for e in container.entries if e.kind != "ptx" or e.arch in ptx}
