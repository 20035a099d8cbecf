"""Judges wheels that were read: links them, applies the rules, and proves what no rule contradicts."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuforge.audit.findings import SEVERITIES, Finding, Ignored, Severity, by_cause
from gpuforge.audit.host.collect import collect
from gpuforge.audit.link import graph as link
from gpuforge.audit.model import WheelFacts, machine_of
from gpuforge.audit.proofs import Proof, fits_beside, proofs
from gpuforge.audit.read import inputs, openings
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.wheel import fault
from gpuforge.audit.rules import RULES
from gpuforge.audit.together import Together, together
from gpuforge.binary.facts import ElfObject
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MalformedError, TooLargeError

if TYPE_CHECKING:  # loading pydantic takes longer than auditing a small wheel
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Baseline
    from gpuforge.audit.read.wheel import Outcome
    from gpuforge.cuda.provided import Provided
    from gpuforge.expectation import Expectation


class Ignore(NamedTuple):
    """Findings that are accepted: a rule's code, a pattern of files (`*` crosses folders), and the reason."""

    rule: str
    reason: str
    file: str = "*"

    def covers(self, finding: Finding) -> bool:
        """Return whether a finding is accepted; one with several files only if all of them are."""
        if self.rule != finding.code:
            return False
        return self.file == "*" or all(
            fnmatch.fnmatchcase(file, self.file) for file in finding.files or ("",)
        )


def accepted_by(expectation: Expectation | None) -> list[Ignore]:
    """Return the findings that the manifest accepts."""
    return [Ignore(each.rule, each.reason, each.file) for each in expectation.accepted] if expectation else []


class WheelReport(NamedTuple):
    """One wheel with its findings and proofs."""

    facts: WheelFacts
    findings: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    proofs: tuple[Proof, ...]
    withheld: tuple[Proof, ...] = ()  # what is not proved although no finding contradicts it, with the reason

    @property
    def verdict(self) -> Severity | Literal["clean"]:
        """The severity of its worst finding, or "clean"."""
        return self.findings[0].severity if self.findings else "clean"

    @property
    def with_accepted(self) -> tuple[Finding, ...]:
        """Its findings, and those that were accepted."""
        return (*self.findings, *(each.finding for each in self.ignored))


class Report(NamedTuple):
    """The result of an audit. `problems` are inputs that could not be read at all."""

    wheels: tuple[WheelReport, ...]
    problems: tuple[Diagnostic, ...]
    graph: link.LinkGraph
    together: Together | None = None  # the libraries that all of them bring into one process, if requested
    like: Report | None = None  # the report about the wheels that they are compared with

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
    """The expectations that the wheels are compared with, and the accepted findings."""

    expectation: Expectation | None = None
    against: Against | None = None
    brought: Provided | None = None
    ignore: Sequence[Ignore | Baseline] = ()
    together: bool = False  # whether to list the libraries that all of them bring into one process
    one_process: bool = False  # whether all of them are promised to work in one process
    like: Report | None = None  # the report about wheels that they are compared with


def judge(given: inputs.Inputs, outcomes: Sequence[Outcome], question: Question) -> Report:
    """Judge the wheels that were read together; an input that could not be read becomes a problem of the report."""
    facts, problems = _facts_and_problems(given, outcomes)
    try:
        return _judged(given, facts, problems, question)
    except Exception:
        sound = list(_without_faults(given, facts, problems, question))
        if sound == facts:
            raise
        return _judged(given, sound, problems, question)


def _judged(
    given: inputs.Inputs, facts: Sequence[WheelFacts], problems: Sequence[Diagnostic], question: Question
) -> Report:
    expectation = question.expectation
    accepted = [*question.ignore, *accepted_by(expectation)]
    linked = _graph(facts, question)
    graph = replace(
        linked,
        evidence=collect(given.readable, linked),
        openings=openings.collect(given.readable) if question.against else {},
        overriding=given.overriding,
        one_process=question.one_process,
        like=_counterparts(facts, [each.facts for each in question.like.wheels]) if question.like else {},
    )
    findings = _findings(graph)
    wheels = tuple(
        _report(graph, each, findings.get(each.name, ()), accepted)
        for each in sorted(graph.wheels, key=lambda wheel: wheel.neighbour)
    )
    if question.together and not problems:
        wheels = tuple(_with_proof(wheels, given.python))
    shared = together(graph) if question.together else None
    return Report(wheels, tuple(problems), graph, shared, question.like)


def _counterparts(wheels: Iterable[WheelFacts], others: Sequence[WheelFacts]) -> Mapping[str, WheelFacts]:
    """Return for the names of wheels the others to compare them with: of the same project, with most tags in common.

    If all others are of one project, names do not matter: cupy is built from the sdist of cupy-cuda13x's project.
    """
    found = {}
    for wheel in (each for each in wheels if not each.neighbour):
        alike = [other for other in others if other.known_as == wheel.known_as]
        if alike or len({other.known_as for other in others}) == 1:
            found[wheel.name] = max(alike or others, key=lambda other: _in_common(wheel, other))
    return found


def _in_common(one: WheelFacts, other: WheelFacts) -> tuple[int, int]:
    pythons = ({(tag.interpreter, tag.abi) for tag in wheel.file_tags} for wheel in (one, other))
    return len(set.intersection(*pythons)), int(one.machine == other.machine)


def _with_proof(wheels: Sequence[WheelReport], python: str) -> Iterator[WheelReport]:
    """Yield the reports of wheels, and add the proof that the packages beside them fit.

    Findings are about them together if they are about several wheels, or about one of these packages.
    """
    given = [each.facts for each in wheels]
    others = [facts for facts in given if facts.neighbour]
    names = {other.name for other in others}
    found = [f for each in wheels for f in each.with_accepted if f.across or f.wheel in names]
    for each in wheels:
        judged = not each.facts.neighbour
        proved = fits_beside(each.facts, others, given, found, python=python) if judged else ()
        yield each._replace(proofs=(*each.proofs, *proved))


def _without_faults(
    given: inputs.Inputs, facts: Sequence[WheelFacts], problems: list[Diagnostic], question: Question
) -> Iterator[WheelFacts]:
    """Yield the wheels that can be judged by themselves, and add a problem for each of the others."""
    places = {one.label: Place(str(one.place)) for one in given.readable}
    for each in facts:
        try:
            _judged(given, [each], (), question)
        except MemoryError:
            yield each.unjudged(inputs.NO_MEMORY)
        except Exception as error:  # noqa: BLE001  whatever a wheel raises is its own error
            problems += [Diagnostic(d.head, places[each.name], d.hint) for d in fault(error).diagnostics]
        else:
            yield each


def _graph(facts: Sequence[WheelFacts], question: Question) -> link.LinkGraph:
    """Build the graph; of wheels whose libraries take too long to follow, it has the names only."""
    while True:
        graph = link.build(facts, question.expectation, question.brought, question.against)
        if not graph.too_large:
            return graph
        known = graph.too_large
        facts = [each.unjudged(known[each.name]) if each.name in known else each for each in facts]


def _facts_and_problems(
    given: inputs.Inputs, outcomes: Sequence[Outcome]
) -> tuple[list[WheelFacts], list[Diagnostic]]:
    """Return the facts of each input, and a problem for each that cannot be read."""
    facts: list[WheelFacts] = []
    problems = list(given.problems)
    for one, outcome in zip(given.readable, outcomes, strict=True):
        place = Place(str(one.place))
        match outcome:
            case MalformedError():
                problems += [Diagnostic(d.head, place, d.hint or one.hint) for d in outcome.diagnostics]
            case TooLargeError():
                facts.append(_unjudged(one, outcome.diagnostics[0].head))
            case MemoryError():
                facts.append(_unjudged(one, inputs.NO_MEMORY))
            case OSError():
                problems.append(Diagnostic(outcome.strerror or str(outcome), place, "check the path"))
            case _:
                facts.append(outcome)
    return facts, problems


def _unjudged(one: Input, reason: str) -> WheelFacts:
    facts = WheelFacts(one.label, 0, *one.claims, form=one.form, neighbour=one.neighbour)
    return facts._replace(machine=machine_of(facts.file_tags, ()), too_large=reason)


def _findings(graph: link.LinkGraph) -> dict[str, list[Finding]]:
    """Return the findings by wheel; a wheel that is too large to judge has only that finding."""
    wheels = {each.name: each for each in graph.wheels}
    names = titles(graph.wheels)
    found: dict[str, list[Finding]] = {}
    for rule in RULES:
        for finding in rule.check(graph):
            judged = wheels[finding.wheel]
            if judged.neighbour and not (finding.across or rule.of_process):
                continue
            if judged.form in rule.applies_to and (rule.of_too_large or not judged.too_large):
                found.setdefault(finding.wheel, []).append(_with_owners(finding, judged, names))
    return found


def titles(wheels: Sequence[WheelFacts]) -> dict[str, str]:
    """Return the names of wheels in lines of text: their file names if several are of one release."""
    count = Counter(wheel.title for wheel in wheels)
    return {wheel.name: wheel.title if count[wheel.title] == 1 else wheel.name for wheel in wheels}


def _with_owners(finding: Finding, wheel: WheelFacts, names: Mapping[str, str]) -> Finding:
    """Return a finding with its wheel's project, whose subjects name their wheels if several of them make it."""
    subjects = (s._replace(wheel=names.get(s.wheel, "") if finding.across else "") for s in finding.subjects)
    return finding._replace(subjects=tuple(subjects), project=wheel.known_as)


def _report(
    graph: link.LinkGraph,
    facts: WheelFacts,
    findings: Iterable[Finding],
    accepted: Sequence[Ignore | Baseline],
) -> WheelReport:
    """Return the report of one wheel: its findings, those that were accepted, and its proofs."""
    kept, ignored = sorted_out(findings, accepted)
    if facts.too_large or facts.neighbour:
        return WheelReport(facts, by_cause(kept), tuple(ignored), ())
    proved, withheld = proofs(graph, facts, (*kept, *(each.finding for each in ignored)))
    return WheelReport(facts, by_cause(kept), tuple(ignored), proved, withheld)


def sorted_out(
    findings: Iterable[Finding], accepted: Sequence[Ignore | Baseline]
) -> tuple[list[Finding], list[Ignored]]:
    """Return the findings that are not accepted, and those that are, each with the reason."""
    kept: list[Finding] = []
    ignored: list[Ignored] = []
    for finding in findings:
        reason = next((i.reason for i in accepted if i.covers(finding)), None)
        if reason is None:
            kept.append(finding)
        else:
            ignored.append(Ignored(finding, reason))
    return kept, ignored
