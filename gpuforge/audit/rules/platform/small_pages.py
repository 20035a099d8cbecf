"""GF511: objects that kernels with large pages cannot load."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule

# bytes: the largest pages of kernels that distributions have for a processor, which linkers align to by default
# https://docs.kernel.org/arch/arm64/memory.html; ELFv2 ABI for Power, "Program Loading"
_LARGEST = {"aarch64": 1 << 16, "ppc64le": 1 << 16}


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the alignment of PT_LOAD with the largest pages of the processor (glibc, elf/dl-load.c)."""
    for wheel in graph.wheels:
        for found in (o for o in wheel.objects if o.links and not o.is_debug):
            if found.page % _LARGEST.get(found.processor, 1):
                yield RULE.finding(
                    wheel.name,
                    files=(found.file,),
                    subjects=(
                        Subject(file=found.file, detail="{page:KiB} KiB", facts=facts_of(page=found.page)),
                    ),
                    cause=(found.processor,),
                    what=f"Segments are aligned for smaller pages than kernels for {found.processor} may have: 64 KiB.",
                    why="There the import fails with “ELF load command alignment not page-aligned”: kernels of RHEL 8 "
                    "and NVIDIA's for Grace have such pages.",
                    fix="Link with -Wl,-z,max-page-size=65536, the default of most linkers for this processor.",
                )


RULE = Rule(
    code="GF511",
    severity="warning",
    title="an object does not load on kernels with larger pages",
    check=check,
)
