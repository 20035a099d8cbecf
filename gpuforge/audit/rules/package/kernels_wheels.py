"""GF711: a kernels wheel that the package's runtime refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Hold each kernels wheel against the list in its package's wheel, as the runtime does."""
    packages = [wheel for wheel in graph.wheels if wheel.kernels_wheels]
    for wheel in graph.wheels:
        about = wheel.kernels_wheel
        given = [package for package in packages if wheel.project in _names(package.kernels_wheels)]
        if not about or not given:
            continue
        reasons = [list(_reasons(about, package)) for package in given]
        if all(reasons):  # of several releases of the package one may be its own
            yield RULE.finding(
                wheel.name,
                across=True,
                subjects=tuple(dict.fromkeys(subject for each in reasons for subject in each)),
                what="The kernels wheel does not match the wheel of the package.",
                why="The runtime refuses its kernels, and the package computes on the CPU.",
                fix="Publish and install the wheels of one build.",
            )


RULE = Rule(
    code="GF711",
    severity="error",
    title="a kernels wheel does not match the wheel of its package",
    check=check,
)


def _names(listing: Mapping[str, object]) -> set[object]:
    return {each.get("distribution") for each in _tables(listing.get("wheels"))}


def _reasons(about: Mapping[str, object], package: WheelFacts) -> Iterator[Subject]:
    known = package.kernels_wheels
    if about.get("version") != known.get("version"):
        text = f"its version is {about.get('version')}, and {package.name} has {known.get('version')}"
        yield Subject(provider=package.name, detail=text, kind="version", about=(package.project,))
        return
    there = {each.get("name"): each.get("abi") for each in _tables(about.get("sets"))}
    for each in _tables(known.get("sets")):
        name = each.get("name")
        if name not in there:
            text = f"it lacks the kernel set {name}, which {package.name} needs"
            yield Subject(
                provider=package.name, detail=text, kind="missing", about=(f"{name}", package.project)
            )
        elif there[name] != each.get("abi"):
            text = (
                f"{name} has the interface {there[name]}, and {package.name} was built for {each.get('abi')}"
            )
            yield Subject(
                provider=package.name, detail=text, kind="interface", about=(f"{name}", package.project)
            )


def _tables(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
