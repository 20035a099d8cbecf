"""GF306: makefiles, CMake and pkg-config files with folders of the machine that built the wheel."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find absolute paths that are not on every system in the files that users build with."""
    for wheel in graph.wheels:
        if wheel.build_paths:
            yield RULE.finding(
                wheel.name,
                files=dict.fromkeys(path.file for path in wheel.build_paths),
                subjects=tuple(Subject(file=path.file, item=path.path) for path in wheel.build_paths),
                what="Build files in the wheel contain paths of the build machine.",
                why="On other machines these paths do not exist, and a build that uses them fails.",
                fix="Write paths relative to the file itself: $(dir $(lastword $(MAKEFILE_LIST))) in makefiles, "
                "CMAKE_CURRENT_LIST_DIR in CMake, ${pcfiledir} for pkg-config.",
            )


RULE = Rule(
    code="GF306",
    severity="warning",
    title="a makefile, CMake or pkg-config file names folders of the build machine",
    check=check,
    applies_to=PACKAGES,
)
