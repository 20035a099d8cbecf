"""GF406: device code of several CUDA toolkits in one file."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import DeviceCode, Finding, Severity
from gpuforge.audit.rules.architectures import own_code
from gpuforge.toolkits import tables

CODE = "GF406"
SEVERITY: Severity = "info"
TITLE = "one file has device code of several CUDA toolkits"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the PTX ISA and, where it is known, the toolkit of the images in each file."""
    for wheel in graph.wheels:
        for code in own_code(wheel):
            found = _toolkits(code)
            if len(found) > 1:
                texts = [f"{name} ({count} images)" for name, count in sorted(found.items())]
                yield Finding(
                    CODE,
                    SEVERITY,
                    wheel.name,
                    files=(code.file,),
                    subject=(f"{code.file}: {', '.join(texts)}",),
                    message="files have device code of several CUDA toolkits: static libraries bring their own, and "
                    "the newest one decides which driver is needed",
                    remedy="nothing, if static libraries of NVIDIA are linked in; else see that all sources are "
                    "compiled by one toolkit",
                )


def _toolkits(code: DeviceCode) -> dict[str, int]:
    found: dict[str, int] = {}
    by_isa: dict[str, str] = {}
    for release in tables.releases():
        known = by_isa.get(release.ptx)
        by_isa[release.ptx] = f"{known}/{release.version}" if known else f"CUDA {release.version}"
    for entry in (e for c in code.containers for e in c.entries if e.kind == "ptx"):
        name = by_isa.get(entry.isa, f"PTX {entry.isa}")
        found[name] = found.get(name, 0) + 1
    return found
