"""GF406: device code of several CUDA toolkits in one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import own_code
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import DeviceCode
from gpuforge.cuda import releases


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the toolkits that wrote the machine code of each file, and those that wrote its PTX.

    Machine code and PTX are not compared: clang writes PTX of an older ISA than that of the toolkit whose ptxas it
    runs.
    """
    for wheel in graph.wheels:
        for code in own_code(wheel):
            found = [counts for kind in ("cubin", "ptx") if len(counts := _toolkits(code, kind)) > 1]
            if found:
                images = tuple(row for counts in found for row in sorted(counts.items()))
                yield RULE.finding(
                    wheel.name,
                    files=(code.file,),
                    subjects=(
                        Subject(file=code.file, detail="{images:images}", facts=facts_of(images=images)),
                    ),
                    what="Files contain GPU code of several CUDA toolkits.",
                    why="Users need a driver for the newest of them: PTX needs a driver as new as its toolkit, machine "
                    "code any driver for its CUDA major.",
                    fix="None needed if static libraries of NVIDIA are linked in. Otherwise compile all sources with "
                    "one toolkit.",
                )


RULE = Rule(
    code="GF406",
    severity="info",
    title="one file has device code of several CUDA toolkits",
    check=check,
)


def _toolkits(code: DeviceCode, kind: str) -> Counter[str]:
    """Count the images of a kind by the toolkit that wrote them, if it is known."""
    images = [e for c in code.containers for e in c.entries if e.kind == kind]
    if kind == "ptx":
        return Counter(f"PTX of {_by_isa().get(e.isa, f'ISA {e.isa}')}" for e in images)
    return Counter(f"machine code of CUDA {e.toolkit}" for e in images if e.toolkit)


@cache
def _by_isa() -> Mapping[str, str]:
    """Return the releases that write each PTX ISA: "CUDA 12.4", "CUDA 12.5/12.6"."""
    found: dict[str, str] = {}
    rows = [(r.ptx, r.version) for r in releases.former()] + [(r.ptx, r.version) for r in releases.releases()]
    for isa, version in rows:
        known = found.get(isa)
        found[isa] = f"{known}/{version}" if known else f"CUDA {version}"
    return found
