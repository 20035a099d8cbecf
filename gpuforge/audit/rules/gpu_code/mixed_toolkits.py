"""GF406: device code of several CUDA toolkits in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import DeviceCode
from gpuforge.cuda import releases


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the PTX ISA and, where it is known, the toolkit of the images in each file."""
    for wheel in graph.wheels:
        for code in own_code(wheel):
            found = _toolkits(code)
            if len(found) > 1:
                texts = [f"{name} ({count} images)" for name, count in sorted(found.items())]
                yield RULE.finding(
                    wheel.name,
                    files=(code.file,),
                    subjects=(Subject(file=code.file, detail=", ".join(texts)),),
                    what="Files contain GPU code of several CUDA toolkits.",
                    why="The newest of these toolkits decides which driver users need.",
                    fix="None needed if static libraries of NVIDIA are linked in. Otherwise compile all sources with "
                    "one toolkit.",
                )


RULE = Rule(
    code="GF406",
    severity="info",
    title="one file has device code of several CUDA toolkits",
    check=check,
)


def _toolkits(code: DeviceCode) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in (e for c in code.containers for e in c.entries if e.kind == "ptx"):
        name = _by_isa().get(entry.isa, f"PTX {entry.isa}")
        found[name] = found.get(name, 0) + 1
    return found


@cache
def _by_isa() -> Mapping[str, str]:
    """Return the releases that write each PTX ISA: "CUDA 12.4", "CUDA 12.5/12.6"."""
    found: dict[str, str] = {}
    rows = [(r.ptx, r.version) for r in releases.former()] + [(r.ptx, r.version) for r in releases.releases()]
    for isa, version in rows:
        known = found.get(isa)
        found[isa] = f"{known}/{version}" if known else f"CUDA {version}"
    return found
