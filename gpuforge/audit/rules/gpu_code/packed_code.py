"""GF411: GPU code in a compression that drivers of its CUDA release cannot unpack."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.installed import cuda_major
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.gpu_code.containers import own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import DeviceCode, FatbinEntry
from gpuforge.cuda import drivers, releases
from gpuforge.cuda.suffix import major_of_local, major_of_suffix
from gpuforge.cuda.version import major_of


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find zstd in code of a CUDA major whose oldest driver does not know it."""
    for wheel in graph.wheels:
        for code in own_code(wheel):
            packed = [e for c in code.containers for e in c.entries if e.compression == "zstd"]
            floor = _floor(wheel, code, packed) if packed else ""
            if floor and releases.parsed(floor) < releases.parsed(drivers.zstd()):
                yield RULE.finding(
                    wheel.name,
                    files=(code.file,),
                    subjects=(
                        Subject(
                            file=code.file,
                            detail="{count} of {total} images",
                            facts=facts_of(
                                count=len(packed), total=sum(len(c.entries) for c in code.containers)
                            ),
                        ),
                    ),
                    cause=(floor,),
                    what=f"GPU code is packed with zstd, and drivers before {drivers.zstd()} cannot unpack it.",
                    why=f"CUDA of this release works with driver {floor} and newer; a launch with a driver in between "
                    "fails.",
                    fix="Compile with nvcc --compress-mode=speed, or document the driver.",
                )


RULE = Rule(
    code="GF411",
    severity="warning",
    title="GPU code is packed in a way that needs a newer driver than its CUDA release",
    check=check,
)


def _floor(wheel: WheelFacts, code: DeviceCode, packed: list[FatbinEntry]) -> str:
    """Return the oldest driver for a CUDA major: that of the toolkit of the images, or else of the wheel."""
    toolkits = {e.toolkit for e in packed if e.toolkit}
    own = next((o for o in wheel.objects if o.file == code.file), None)
    majors = {major_of(toolkit) for toolkit in toolkits} or {
        major
        for major in (
            cuda_major(own.needed) if own else None,
            major_of_suffix(wheel.project),
            major_of_local(wheel.version),
        )
        if major
    }
    return drivers.driver_of_cubins({f"{min(majors)}.0"}, ()) if majors else ""
