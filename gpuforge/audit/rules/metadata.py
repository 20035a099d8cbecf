"""GF704: metadata that installers cannot work with."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity, WheelFacts

CODE = "GF704"
SEVERITY: Severity = "error"
TITLE = "the wheel's metadata cannot be used"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Report what is missing in .dist-info, a file name that is no wheel's, and requirements that do not parse."""
    for wheel in graph.wheels:
        problems = list(_problems(wheel))
        if problems:
            yield Finding(
                CODE,
                SEVERITY,
                wheel.name,
                files=(),
                subject=tuple(problems),
                message="installers cannot use the wheel's metadata",
                remedy="see the PyPA specifications of the wheel format and of core metadata",
            )


def _problems(wheel: WheelFacts) -> Iterator[str]:
    yield from wheel.metadata_problems
    if not wheel.file_tags:
        yield f"{wheel.name} is not the file name of a wheel (name-version-python-abi-platform.whl)"
    for line in wheel.requires:
        try:
            Requirement(line)
        except InvalidRequirement as error:
            yield f"Requires-Dist: {line}: {str(error).splitlines()[0]}"
