"""The audit as one pure call: paths of wheels in, a report out; nothing is printed, nothing is written."""

import fnmatch
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.audit import inputs, wheel
from gpuforge.audit.model import NEEDED_BY, SEVERITIES, Finding, Ignored, Proof, Severity, WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MalformedError

if TYPE_CHECKING:  # loading pydantic takes longer than auditing a small wheel
    from gpuforge.audit import graph as link
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Acceptance
    from gpuforge.cuda.provided import Provided
    from gpuforge.manifest.load import ManifestFile


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
    graph: "link.LinkGraph"

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


def audit(
    paths: Sequence[Path],
    *,
    manifest: "ManifestFile | None" = None,
    cuda: str | None = None,
    expect: str | None = None,
    against: "Against | None" = None,
    ignore: "Iterable[Acceptance]" = (),
    jobs: int = 1,
    brought: "Provided | None" = None,
) -> Report:
    """Audit wheels, and what is taken for such (see `inputs`), together: one may provide what another needs.

    With a manifest, what it promises is judged too: for the toolkit `cuda`, the key of its table, or for its
    only one. Without one, `expect` says which architectures should be there ("80,90a,120+ptx"). `brought` is what a
    build found out of the packages that the wheel requires, `against` what a user's own build brings into the process.
    `jobs` threads read members at the same time. What cannot be read becomes a problem of the report, and the rest
    goes on.
    Raises UsageError for a `cuda` that the manifest does not have, and for an `expect` that is not understood.
    """
    promised = None
    if manifest or expect:
        from gpuforge.audit import intent  # noqa: PLC0415  only promises need it

        promised = intent.of(manifest, cuda) if manifest else intent.expecting(expect or "")
    accepted: list[Acceptance] = [*ignore]
    if manifest:
        accepted += [Ignore(i.rule, i.reason, i.file) for i in manifest.manifest.audit.ignore]
    facts: list[WheelFacts] = []
    with inputs.expand(paths) as given:
        problems = given.problems
        outcomes = wheel.read_all(given.found, jobs)
        # these take as long to load as a small wheel takes to read, and with several jobs that has begun
        from gpuforge.audit import graph as link  # noqa: PLC0415
        from gpuforge.audit.rules import RULES  # noqa: PLC0415

        if wheel.leaves_time(given.found):
            _load_what_follows()
        for one, outcome in zip(given.found, outcomes, strict=True):
            place = Place(str(one.place))
            match outcome:
                case MalformedError():
                    problems += [Diagnostic(d.message, place, one.hint) for d in outcome.diagnostics]
                case OSError():
                    problems.append(Diagnostic(outcome.strerror or str(outcome), place, "check the path"))
                case _:
                    facts.append(outcome)
        graph = link.build(facts, promised, brought, against)
        if promised and promised.host_only:
            from gpuforge.audit.host.collect import collect  # noqa: PLC0415  only promises need it

            graph.evidence = collect(given.found, graph)
    forms = {held.name: held.form for held in facts}
    raw = [f for rule in RULES for f in rule.check(graph) if forms[f.wheel] in rule.applies_to]
    return Report(tuple(_report(graph, held, raw, accepted) for held in facts), tuple(problems), graph)


def _load_what_follows() -> None:
    """Load the code and the tables that a large wheel meets after its binaries: reading these leaves the time."""
    from gpuforge.audit import (  # noqa: F401, PLC0415
        declared,
        kernels,
        metadata,
        pins,
        policy,
        preload,
        proof,
    )
    from gpuforge.cuda import drivers, generations  # noqa: PLC0415

    policy.is_system("")
    declared.candidates("")
    generations.generations()
    drivers.driver_of_ptx("")


def _report(
    graph: "link.LinkGraph", held: WheelFacts, raw: Iterable[Finding], accepted: "Sequence[Acceptance]"
) -> WheelReport:
    from gpuforge.audit import proof  # noqa: PLC0415  as in `audit`

    kept: list[Finding] = []
    ignored: list[Ignored] = []
    for finding in raw:
        if finding.wheel != held.name:
            continue
        reason = next((i.reason for i in accepted if i.covers(finding)), None)
        if reason is None:
            kept.append(finding)
        else:
            ignored.append(Ignored(finding, reason))
    findings = _by_cause(kept)
    proofs = proof.proofs(graph, held, (*findings, *(each.finding for each in ignored)))
    return WheelReport(held, findings, tuple(ignored), proofs)


def _by_cause(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Join findings that differ in files and subjects alone; the worst come first."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.code, finding.severity, finding.message, finding.remedy)
        groups.setdefault(key, []).append(finding)
    joined = [
        group[0]._replace(
            files=tuple(dict.fromkeys(file for f in group for file in f.files)),
            subject=_by_library(subject for f in group for subject in f.subject),
        )
        for group in groups.values()
    ]
    return tuple(sorted(joined, key=lambda f: (SEVERITIES.index(f.severity), f.code)))


def _by_library(subjects: Iterable[str]) -> tuple[str, ...]:
    lines: dict[tuple[str, str], dict[str, None]] = {}
    for subject in subjects:
        library, needed_by, loader = subject.partition(NEEDED_BY)
        lines.setdefault((library, needed_by), {})[loader] = None
    return tuple(
        f"{library}{needed_by}{', '.join(loaders)}" for (library, needed_by), loaders in lines.items()
    )
