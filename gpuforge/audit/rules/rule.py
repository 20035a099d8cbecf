"""A rule: its code, its title, the inputs that it applies to, the proof that it contradicts, and its check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from gpuforge.audit.findings import Finding, Severity, Subject, Topic
from gpuforge.audit.form import EVERY_INPUT, Form
from gpuforge.audit.link.graph import LinkGraph


class Text(NamedTuple):
    """The sentences of a finding, for rules that have several: `RULE.finding(wheel, **text._asdict(), …)`."""

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
    check: Callable[[LinkGraph], Iterator[Finding]]
    applies_to: frozenset[Form] = EVERY_INPUT
    # a finding about one package is also true of the process that it shares with others
    of_process: bool = False
    of_too_large: bool = False  # it judges wheels that are too large for the other rules
    contradicts: Topic | None = None  # the topic of the proof that a finding of this rule contradicts
    contradicts_from: Severity = "warning"  # the lowest severity of a finding that contradicts it

    def finding(
        self,
        wheel: str,
        *,
        files: Iterable[str] = (),
        subjects: Iterable[Subject],
        what: str,
        why: str,
        fix: str,
        cause: tuple[object, ...] = (),
        severity: Severity | None = None,
        across: bool = False,
        commands: Iterable[str] = (),
    ) -> Finding:
        """Return a finding of this rule, of the rule's severity if no other is given.

        `cause` are the words and facts that `what`, `why` and `fix` depend on, if these are not constant. `across` is
        set if several wheels together cause it. `commands` make the fix: one for each file, as they may differ.
        """
        return Finding(
            self.code,
            severity or self.severity,
            wheel,
            tuple(files),
            tuple(subjects),
            what,
            why,
            fix,
            cause,
            across,
            commands=tuple(commands),
        )
