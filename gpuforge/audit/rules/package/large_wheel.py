"""GF708: a large wheel, and the files, sections and architectures that make it large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import ARCHIVES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule

# bytes: MAX_FILESIZE in https://github.com/pypi/warehouse/blob/main/warehouse/constants.py
_LIMIT = 100 << 20
_WORTH = 1 << 19  # bytes; less is written as 0 MiB
_MOST = 5


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find wheels over 100 MiB, and the files, sections and architectures that take most of their bytes."""
    for wheel in graph.wheels:
        if wheel.size > _LIMIT:
            yield RULE.finding(
                wheel.name,
                subjects=tuple(
                    Subject(item=topic, detail="{sizes:sizes}", facts=facts_of(sizes=large))
                    for topic, table in sizes(wheel).items()
                    if (large := tuple((name, size) for name, size in table if size >= _WORTH))
                ),
                what=f"The wheel is {-(-wheel.size // 2**20):,} MiB. PyPI accepts 100 MiB by default.",
                why="PyPI refuses the upload until it raises the limit for the project.",
                fix="Replace machine code of some architectures with PTX, compress the machine code (nvcc "
                "--compress-mode=size; with CUDA 12 it then needs driver 550), require CUDA's libraries instead of "
                "shipping them, or ask PyPI for a higher limit.",
            )


RULE = Rule(
    code="GF708",
    severity="info",
    title="the wheel is larger than what PyPI accepts by default",
    check=check,
    applies_to=ARCHIVES,
)


def sizes(wheel: WheelFacts) -> dict[str, list[tuple[str, int]]]:
    """Return the largest files, ELF sections and GPU architectures, each as (name, bytes in the installed wheel)."""
    sections: Counter[str] = Counter()
    for found in wheel.objects:
        for section in found.sections:
            sections[section.name] += section.size
    archs: Counter[str] = Counter()
    for code in wheel.device:
        for entry in (e for c in code.containers for e in c.entries):
            archs[f"{entry.target} PTX" if entry.kind == "ptx" else entry.target] += entry.stored
    return {
        "files": Counter(dict(wheel.members)).most_common(_MOST),
        "sections": [(name, size) for name, size in sections.most_common(_MOST) if name],
        "device code": archs.most_common(_MOST),
    }
