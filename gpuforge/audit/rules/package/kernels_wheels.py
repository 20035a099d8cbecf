"""GF711: a kernels wheel that the package's runtime refuses."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.embedded import KernelsWheels, Unusable
from gpuforge.audit.findings import Finding, Subject
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.embedded import layout


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Hold each kernels wheel against the list in its package's wheel, as the runtime does."""
    packages = [(w, w.kernels_wheels) for w in graph.wheels if isinstance(w.kernels_wheels, KernelsWheels)]
    for wheel in graph.wheels:
        about = wheel.kernels_wheel
        given = [(package, known) for package, known in packages if wheel.project in known.distributions]
        if about is None or not given:
            continue
        reasons = [list(_reasons(about, package, known)) for package, known in given]
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


def _reasons(about: KernelsWheels | Unusable, package: WheelFacts, known: KernelsWheels) -> Iterator[Subject]:
    if isinstance(about, Unusable):
        text = f"its {layout.WHEEL} cannot be used: {about.problem}"
        yield Subject(provider=package.name, detail=text, kind=about.kind, about=(package.project,))
        return
    if about.version != known.version:
        text = f"its version is {about.version}, and {package.name} has {known.version}"
        yield Subject(provider=package.name, detail=text, kind="version", about=(package.project,))
        return
    for name, interface in known.sets.items():
        if name not in about.sets:
            text = f"it lacks the kernel set {name}, which {package.name} needs"
            yield Subject(provider=package.name, detail=text, kind="missing", about=(name, package.project))
        elif about.sets[name] != interface:
            text = (
                f"{name} has the interface {about.sets[name]}, and {package.name} was built for {interface}"
            )
            yield Subject(provider=package.name, detail=text, kind="interface", about=(name, package.project))
