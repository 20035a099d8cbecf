"""GF502: the file name and the WHEEL file disagree about the tags."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.graph import LinkGraph
from gpuforge.audit.model import Finding, Severity

CODE = "GF502"
SEVERITY: Severity = "warning"
TITLE = "the tags in WHEEL are not those of the file name"


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare both lists of tags, compressed sets written out."""
    for wheel in graph.wheels:
        if not wheel.wheel_tags or not wheel.file_tags or set(wheel.wheel_tags) == set(wheel.file_tags):
            continue
        only_name = sorted(set(wheel.file_tags) - set(wheel.wheel_tags))
        only_inside = sorted(set(wheel.wheel_tags) - set(wheel.file_tags))
        yield Finding(
            CODE,
            SEVERITY,
            wheel.name,
            files=(),
            subject=(
                *(f"{tag}: in the file name only" for tag in only_name),
                *(f"{tag}: in WHEEL only" for tag in only_inside),
            ),
            message="the tags in WHEEL are not those of the file name: tools that read one disagree with those that "
            "read the other",
            remedy="rename with `wheel tags`, which changes both",
        )
