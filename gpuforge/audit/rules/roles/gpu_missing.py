"""GF605: patterns of a gpu object that match no file with GPU code."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, PatternOf, Subject
from gpuforge.audit.host_files import files_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.gpu_code.containers import has_kernels, own_code
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find patterns that match no file, and matched files without kernels; GF401 compares their architectures."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        promises = expectation.gpu if expectation else ()
        compiled = {code.file for code in own_code(wheel) if has_kernels(code)} if promises else set()
        for promised in promises:
            for pattern in promised.patterns:
                files = files_of((pattern,), wheel)
                lacking = sorted(files - compiled)
                if lacking or not files:
                    yield RULE.finding(
                        wheel.name,
                        files=tuple(lacking),
                        subjects=(
                            Subject(
                                item=PatternOf(pattern, promised.name),
                                detail="without GPU code:" if files else "no file",
                                names=tuple(lacking),
                            ),
                        ),
                        what="Files that the manifest declares as GPU code are missing or contain none.",
                        why="Users get a package whose GPU functions are absent: some builds skip them without an "
                        "error when they find no compiler.",
                        fix="Check in the log of the host build that it compiles these files with nvcc, or correct the "
                        "pattern: ** crosses folders, * does not.",
                    )


RULE = Rule(
    code="GF605",
    severity="error",
    title="a gpu object's file is missing or has no GPU code",
    check=check,
    contradicts="GPU code",
)
