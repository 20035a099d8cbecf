"""A rule: its code, its title, the inputs that it applies to, the proof that it contradicts, and its check."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, Self

from gpuforge.audit.findings import Finding, Severity, Subject, Topic
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import EVERY_INPUT, Form, WheelFacts

Check = Callable[[LinkGraph], Iterator[Finding]]
CheckOfWheel = Callable[[LinkGraph, WheelFacts], Iterator[Finding] | Iterator[Subject]]
"""A check that is called for each wheel, and may yield only the subject of a finding that has its rule's sentences."""


class Text(NamedTuple):
    """The sentences of a finding, for rules that have several."""

    what: str
    why: str
    fix: str
    severity: Severity | None = None  # None for the rule's

    def filled(self, **values: str) -> Self:
        """Return it with values in the place of the names in braces."""
        what, why, fix = (sentence.format(**values) for sentence in self[:3])
        return self._replace(what=what, why=why, fix=fix)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `check` yields one finding for each cause; findings that differ only in their files are joined later.

    `check` is pure: it reads the graph, and no files.
    """

    code: str
    severity: Severity  # the highest; a finding may have a lower one
    title: str
    check: Check
    text: Text  # sentences that all of its findings have are here, others are empty
    applies_to: frozenset[Form]
    of_process: bool
    of_too_large: bool
    contradicts: Topic | None
    contradicts_from: Severity

    def finding(
        self,
        wheel: str,
        subjects: Subject | Iterable[Subject],
        *,
        text: Text | None = None,
        what: str = "",
        why: str = "",
        fix: str = "",
        files: Iterable[str] | None = None,
        cause: tuple[object, ...] = (),
        severity: Severity | None = None,
        across: bool = False,
        commands: Iterable[str] = (),
    ) -> Finding:
        """Return a finding of this rule, with its severity and its sentences where no others are given.

        `cause` are the words and facts that the sentences depend on, if these are not constant. Without `files` it has
        the files of its subjects, or those that need their libraries. `across` is set if several wheels together cause
        it. `commands` make the fix: one for each file, as they may differ.
        """
        about = (subjects,) if isinstance(subjects, Subject) else tuple(subjects)
        if files is None:
            files = dict.fromkeys(file for s in about for file in ([s.file] if s.file else s.needed_by))
        text = text or self.text
        return Finding(
            self.code,
            severity or text.severity or self.severity,
            wheel,
            tuple(files),
            about,
            what or text.what,
            why or text.why,
            fix or text.fix,
            cause,
            across,
            commands=tuple(commands),
        )


def rule(
    code: str,
    severity: Severity,
    title: str,
    *,
    what: str = "",
    why: str = "",
    fix: str = "",
    applies_to: frozenset[Form] = EVERY_INPUT,
    of_process: bool = False,
    of_too_large: bool = False,
    contradicts: Topic | None = None,
    contradicts_from: Severity = "warning",
) -> Callable[[Check | CheckOfWheel], Rule]:
    """Make a rule of the check below: `what`, `why` and `fix` are sentences that all of its findings have.

    `of_process`: a finding about one package is also true of the process that it shares with others. `of_too_large`: it
    judges wheels that are too large for the other rules. `contradicts` is the topic of the proof that a finding of at
    least `contradicts_from` contradicts.
    """
    text = Text(what, why, fix)

    def made(function: Any) -> Rule:
        def of_wheels(graph: LinkGraph) -> Iterator[Finding]:
            for wheel in graph.wheels:
                for found in function(graph, wheel):
                    yield found if isinstance(found, Finding) else made_rule.finding(wheel.name, found)

        check: Check = wraps(function)(of_wheels) if len(signature(function).parameters) > 1 else function
        made_rule = Rule(
            *(code, severity, title, check, text, applies_to),
            *(of_process, of_too_large, contradicts, contradicts_from),
        )
        return made_rule

    return made
