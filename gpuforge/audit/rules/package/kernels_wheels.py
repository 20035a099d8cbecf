"""GF711: a kernels wheel that the package's runtime refuses."""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.audit.embedded import KernelsWheels, Unusable
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.rules.rule import Rule
from gpuforge.runtime import layout


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Compare each kernels wheel with the list in its package's wheel, as the runtime does."""
    packages = [(w, w.kernels_listing) for w in graph.wheels if isinstance(w.kernels_listing, KernelsWheels)]
    for wheel in graph.wheels:
        about = wheel.kernels_description
        given = [(package, known) for package, known in packages if wheel.project in known.distributions]
        if about is None or not given:
            continue
        reasons = [list(_reasons(about, package, known)) for package, known in given]
        if all(reasons):  # if there are several releases of the package, it may belong to one of them
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


def _reasons(
    about: KernelsWheels | Unusable, package: WheelFacts, listed: KernelsWheels
) -> Iterator[Subject]:
    subject = Subject(provider=package.name, about=(package.project,))
    if isinstance(about, Unusable):
        facts = facts_of(file=layout.WHEEL, problem=about.problem)
        yield subject._replace(detail="its {file} cannot be used: {problem}", facts=facts, kind=about.kind)
        return
    if about.version != listed.version:
        detail = "its version is {version}, and {provider} has {wanted}"
        facts = facts_of(version=about.version, wanted=listed.version)
        yield subject._replace(detail=detail, facts=facts, kind="version")
        return
    for name, interface in listed.sets.items():
        one = subject._replace(about=(name, package.project))
        if name not in about.sets:
            yield one._replace(detail="it lacks the kernel set {0}, which {provider} needs", kind="missing")
        elif about.sets[name] != interface:
            detail = "{0} has the interface {found}, and {provider} was built for {wanted}"
            facts = facts_of(found=about.sets[name], wanted=interface)
            yield one._replace(detail=detail, facts=facts, kind="interface")
