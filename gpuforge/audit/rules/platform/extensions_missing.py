"""GF509: a wheel for every Python although the manifest builds one for each."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare the tags with `[package] python` and `abi`: a pure wheel for each Python has lost its extensions."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        if expectation is None or not expectation.python:
            continue
        if wheel.file_tags and all((tag.abi, tag.platform) == ("none", "any") for tag in wheel.file_tags):
            yield RULE.finding(
                wheel.name,
                subjects=(
                    Subject(
                        detail="{tags}, and [package] python lists {python}",
                        facts=facts_of(tags=tuple(map(str, wheel.file_tags)), python=expectation.python),
                        kind="for any Python",
                    ),
                ),
                what="The wheel has no extension module, and the manifest builds a wheel for each Python.",
                why="Users may get a package without its compiled code: some builds skip extensions without an "
                "error when they find no compiler.",
                fix="Check the log of the host build for the extension modules. If one wheel serves every "
                'Python, write abi = "none" in [package].',
            )


RULE = Rule(
    code="GF509",
    severity="error",
    title="a wheel without extension modules, where the manifest builds one for each Python",
    check=check,
)
