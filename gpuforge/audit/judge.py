"""Judge wheels that were read: link them, apply the rules, and prove what no rule contradicts."""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.audit import proof
from gpuforge.audit.causes import by_cause
from gpuforge.audit.findings import SEVERITIES, Finding, Ignored, Proof, Severity
from gpuforge.audit.host.collect import collect
from gpuforge.audit.link import graph as link
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.read import inputs
from gpuforge.audit.rules import RULES
from gpuforge.binary.facts import ElfObject
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MalformedError
from gpuforge.expectation import Expectation

if TYPE_CHECKING:  # loading pydantic takes longer than auditing a small wheel
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Acceptance
    from gpuforge.audit.read.wheel import Outcome
    from gpuforge.cuda.provided import Provided


class Ignore(NamedTuple):
    """Findings that are accepted: a rule's code, a pattern of files (`*` crosses folders), and the reason."""

    rule: str
    reason: str
    file: str = "*"

    def covers(self, finding: Finding) -> bool:
        """Say whether a finding is accepted; one with several files only when all of them are."""
        if self.rule != finding.code:
            return False
        return self.file == "*" or all(
            fnmatch.fnmatchcase(file, self.file) for file in finding.files or ("",)
        )


def accepted_by(expectation: Expectation | None) -> list[Ignore]:
    """Return the findings that the manifest accepts."""
    return [Ignore(each.rule, each.reason, each.file) for each in expectation.accepted] if expectation else []


class WheelReport(NamedTuple):
    """One wheel, what is wrong with it, and what was proved of it."""

    facts: WheelFacts
    findings: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    proofs: tuple[Proof, ...]


class Report(NamedTuple):
    """The result of an audit. `problems` are inputs that could not be read at all."""

    wheels: tuple[WheelReport, ...]
    problems: tuple[Diagnostic, ...]
    graph: link.LinkGraph

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding that was not accepted, the worst of each wheel first."""
        return tuple(f for w in self.wheels for f in w.findings)

    @property
    def objects(self) -> tuple[ElfObject, ...]:
        """Every ELF object of every wheel."""
        return tuple(o for w in self.wheels for o in w.facts.objects)

    def worst(self) -> Severity | None:
        """Return the severity of the worst finding, or None without one."""
        found = {f.severity for f in self.findings}
        return next((s for s in SEVERITIES if s in found), None)


class Question(NamedTuple):
    """What the wheels are compared with, and which findings are accepted."""

    expectation: Expectation | None = None
    against: "Against | None" = None
    brought: "Provided | None" = None
    ignore: "Sequence[Acceptance]" = ()


def judge(given: inputs.Inputs, outcomes: "Sequence[Outcome]", question: Question) -> Report:
    """Judge the wheels that were read together; an input that could not be read becomes a problem of the report."""
    facts, problems = _sorted_out(given, outcomes)
    expectation = question.expectation
    accepted = [*question.ignore, *accepted_by(expectation)]
    graph = link.build(facts, expectation, question.brought, question.against)
    if expectation and expectation.host_only:
        graph.evidence = collect(given.found, graph)
    findings = _findings(graph)
    wheels = tuple(_report(graph, each, findings, accepted) for each in facts)
    return Report(wheels, tuple(problems), graph)


def _sorted_out(
    given: inputs.Inputs, outcomes: "Sequence[Outcome]"
) -> tuple[list[WheelFacts], list[Diagnostic]]:
    """Return the facts of each input, and a problem for each that cannot be read."""
    facts: list[WheelFacts] = []
    problems = list(given.problems)
    for one, outcome in zip(given.found, outcomes, strict=True):
        place = Place(str(one.place))
        match outcome:
            case MalformedError():
                problems += [Diagnostic(d.message, place, one.hint) for d in outcome.diagnostics]
            case OSError():
                problems.append(Diagnostic(outcome.strerror or str(outcome), place, "check the path"))
            case _:
                facts.append(outcome)
    return facts, problems


def _findings(graph: link.LinkGraph) -> list[Finding]:
    forms = {each.name: each.form for each in graph.wheels}
    return [f for rule in RULES for f in rule.check(graph) if forms[f.wheel] in rule.applies_to]


def _report(
    graph: link.LinkGraph, facts: WheelFacts, findings: Iterable[Finding], accepted: "Sequence[Acceptance]"
) -> WheelReport:
    """Return the report of one wheel: its findings, those that were accepted, and what is proved of it."""
    kept: list[Finding] = []
    ignored: list[Ignored] = []
    for finding in (f for f in findings if f.wheel == facts.name):
        reason = next((i.reason for i in accepted if i.covers(finding)), None)
        if reason is None:
            kept.append(finding)
        else:
            ignored.append(Ignored(finding, reason))
    proofs = proof.proofs(graph, facts, (*kept, *(each.finding for each in ignored)))
    return WheelReport(facts, by_cause(kept), tuple(ignored), proofs)
