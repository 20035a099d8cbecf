"""GF303: search paths that lead out of the environment."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from gpuforge.audit import layout
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import search_path
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find entries with so many `..` after $ORIGIN that they end above the environment's folder."""
    for found in (o for wheel in graph.wheels for o in wheel.objects if o.links):
        origin = posixpath.dirname(layout.install_path(found.file))
        for way in layout.written(found):
            folder = layout.expanded(way.entry, origin)
            if way.entry.startswith("/") or not folder.startswith("/"):
                continue
            target = posixpath.normpath(folder)
            if not f"{target}/".startswith(f"{layout.ENVIRONMENT}/"):
                yield RULE.finding(
                    found.wheel,
                    files=(found.file,),
                    subjects=(Subject(file=found.file, item=way),),
                    what="Search paths lead out of the environment that the wheel is installed in.",
                    why="Libraries there belong to other software, and are loaded if they have the right name.",
                    fix="Keep the entries that stay within site-packages, and remove the rest.",
                    commands=search_path.commands(graph, found),
                )


RULE = Rule(
    code="GF303",
    severity="warning",
    title="an RPATH or RUNPATH entry leads out of the environment",
    check=check,
    applies_to=PACKAGES,
)
