"""GF111: Halide's runtime in several libraries of one wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.runtime import layout

_SET = re.compile(rf".*{layout.kernels(layout.HOME)}/[^/]+/")
_EVERY = "halide_error"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Count the libraries that define the runtime. Those of one kernel set are alternatives: only one is opened."""
    for wheel in graph.wheels:
        opened: dict[str, list[str]] = {}
        gpus = set()
        for found in sorted((o for o in wheel.objects if o.links), key=lambda o: o.file):
            if _EVERY in (symbols := found.defined("halide")):
                alternatives = _SET.match(found.file)
                place = alternatives[0] if alternatives else found.file
                opened.setdefault(place, []).append(found.file)
                gpus |= {place} if symbols - {_EVERY} else set()
        if len(opened) > 1:
            yield _finding(wheel, [files[0] for files in opened.values()], for_gpus=len(gpus) > 1)


RULE = Rule(
    code="GF111",
    severity="error",
    title="several libraries of a wheel have Halide's runtime",
    check=check,
    of_process=True,
)


def _finding(wheel: WheelFacts, files: list[str], *, for_gpus: bool) -> Finding:
    return RULE.finding(
        wheel.name,
        severity="error" if for_gpus else "info",
        files=tuple(files),
        subjects=tuple(Subject(file=file) for file in files),
        what="Several libraries of the wheel have a Halide runtime of their own"
        + (", for GPUs." if for_gpus else "."),
        why="Each has its own GPU allocations and compiled kernels: a pipeline of one fails on a buffer that a "
        "pipeline of another left on the GPU."
        if for_gpus
        else "Each starts its own threads.",
        fix="Link all pipelines into one library, compiled with no_runtime, and the runtime once. For gpuforge, put "
        "them into one [[objects]] table."
        if for_gpus
        else "None needed if they do not run at the same time. Otherwise link all pipelines into one library.",
    )
