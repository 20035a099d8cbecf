"""GF410: a compiler in the wheel that does not know GPUs of today."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.nvidia import is_nvidia_wheel
from gpuforge.audit.rules.rule import Rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import releases
from gpuforge.cuda.generations import Generation, generations
from gpuforge.runtime.arch import Arch

_ASSEMBLER = r"ptxas([-_.]\w+)*"  # the tool that decides for which GPUs code can be made


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the targets of each ptxas with the GPUs of today; a wheel with several may have one for each."""
    for wheel in graph.wheels:
        tools = [o for o in wheel.objects if o.release and re.fullmatch(_ASSEMBLER, o.name)]
        if not tools or is_nvidia_wheel(wheel):
            continue
        known = {tool.file: _targets(tool.release) for tool in tools}
        every = frozenset[Arch]().union(*known.values())
        lacking = [g for g in generations(wheel.machine) if Arch.parse(g.capability) not in every]
        newer = _newer(lacking, wheel)
        if newer and all(known.values()):
            for tool in tools:
                yield _finding(wheel, tool, newer)


RULE = Rule(
    code="GF410",
    severity="warning",
    title="a compiler in the wheel does not know GPUs of today",
    check=check,
    applies_to=PACKAGES,
)


def _targets(release: str) -> frozenset[Arch]:
    """Return the targets of a toolkit, those of its major that are older included; empty for an unknown one."""
    return next((frozenset(r.archs) for r in releases.releases() if r.version == release), frozenset())


def _newer(lacking: list[Generation], wheel: WheelFacts) -> list[Generation]:
    """Return the generations that came after all those that toolkits have dropped."""
    newest = releases.releases()[-1].archs
    return [g for g in lacking if Arch.parse(g.capability) in newest]


def _finding(wheel: WheelFacts, tool: ElfObject, lacking: list[Generation]) -> Finding:
    return RULE.finding(
        wheel.name,
        files=(tool.file,),
        subjects=(
            Subject(
                file=tool.file,
                detail="of CUDA {release}; no code for {lacking:GPUs}",
                facts=facts_of(release=tool.release, lacking=tuple((g.capability, g.name) for g in lacking)),
            ),
        ),
        what="A ptxas in the wheel is older than GPUs of today.",
        why="Code that the wheel compiles on the user's machine fails there: ptxas does not know the value of its "
        "option 'gpu-name'.",
        fix="Take ptxas from a newer toolkit, or require NVIDIA's package of it (nvidia-cuda-nvcc).",
    )
