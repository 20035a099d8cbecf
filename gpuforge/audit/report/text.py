"""The audit's report for people: a verdict for each wheel, its findings by cause, and what was proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuforge.audit.findings import SEVERITIES, Finding, Ignored, Severity
from gpuforge.audit.judge import Report, WheelReport
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.report.page import Span, drawn, hanging, wrapped
from gpuforge.audit.report.sentences import bullets
from gpuforge.audit.report.shown import brief
from gpuforge.audit.report.shown import shown as visible
from gpuforge.audit.rules.wording import shorten

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_MOST_SUBJECTS = 12
_INDENT, _HEAD = 2, 10  # columns before a finding, and of what stands before its text

_Line = list[Span]


def render(
    report: Report, *, width: int = 80, color: bool = False, show_tree: bool = False, show_gpus: bool = False
) -> str:
    """Return a report as text, `width` characters wide, no line ending in spaces.

    With the link graph and the GPU tables where they are asked for. Inputs that could not be read are the
    caller's to tell.
    """
    lines = _lines(report, width, color=color, show_tree=show_tree, show_gpus=show_gpus)
    return "".join(f"{line}\n" for line in lines)


def _lines(report: Report, width: int, *, color: bool, show_tree: bool, show_gpus: bool) -> Iterator[str]:
    if show_tree or show_gpus:
        from gpuforge.audit.report.tables import Drawing  # noqa: PLC0415  it loads rich

        drawing = Drawing(width, color=color)
    shown = [held for held in report.wheels if not _is_dull(held)]
    for index, held in enumerate(shown):
        if index:
            yield ""
        yield from (drawn(line, color=color) for line in _wheel(held, width))
        if show_tree:
            yield from drawing.tree(report, held.facts)
        if show_gpus:
            yield from drawing.code(held.facts)
    if show_gpus:
        yield from drawing.generations(report)
    for line in _end(report, len(report.wheels) - len(shown), width):
        yield drawn(line, color=color)


def _end(report: Report, dull: int, width: int) -> Iterator[_Line]:
    if dull:
        has = (
            "s have no binaries, and nothing was found in them"
            if dull > 1
            else " has no binaries, and nothing was found in it"
        )
        yield []
        yield from wrapped([(f"{dull} more installed distribution{has}", "")], width)
    if len(report.wheels) > 1:
        yield []
        yield from wrapped([(_summary(report), "bold")], width)


def _is_dull(held: WheelReport) -> bool:
    """Say whether something is there only because the whole environment was given."""
    facts = held.facts
    return facts.form == "installed" and not (facts.objects or facts.device or held.findings or held.ignored)


def _wheel(held: WheelReport, width: int) -> Iterator[_Line]:
    yield from wrapped([(visible(held.facts.name), "bold")], width)
    verdict = [*_verdict(held), (f"; {_size(held.facts)}", "dim")]
    yield from hanging(("", ""), wrapped(verdict, width - _INDENT), _INDENT, 0)
    for finding in held.findings:
        yield []
        yield from _finding(finding, width)
    if held.ignored:
        yield []
        for spans in _accepted(held.ignored):
            yield from _row(("accepted", "dim"), spans, width)
    if held.proofs:
        yield []
        for proof in held.proofs:
            told = [(proof.topic, "bold"), (": ", ""), (visible(proof.text), "")]
            yield from _row(("proved", "green"), told, width)


def _size(facts: WheelFacts) -> str:
    parts = [f"{facts.size / 1e6:.1f} MB" if facts.size >= 1e6 else f"{facts.size / 1e3:.1f} kB"]
    parts += [f"{len(facts.objects)} ELF file{'s' * (len(facts.objects) != 1)}"] if facts.objects else []
    parts += [f"GPU code in {len(facts.device)}"] if facts.device else []
    return ", ".join(parts)


def _verdict(held: WheelReport) -> Iterator[Span]:
    counts = Counter(f.severity for f in held.findings)
    if not counts:
        yield f"clean: nothing was found{' that is not accepted' if held.ignored else ''}", "bold green"
    for index, severity in enumerate(s for s in SEVERITIES if counts[s]):
        if index:
            yield ", ", ""
        yield _count(counts[severity], severity), _STYLES[severity]


def _count(number: int, severity: Severity) -> str:
    if severity == "info":
        return f"{number} for information"
    return f"{number} {severity}" + ("s" if number > 1 else "")


def _finding(finding: Finding, width: int) -> Iterator[_Line]:
    head = [(finding.code, "bold"), (" ", ""), (visible(finding.message), "")]
    yield from _row((finding.severity, _STYLES[finding.severity]), head, width)
    for subject in bullets(finding)[:_MOST_SUBJECTS]:
        yield from _bullet(brief(visible(subject)), width)
    rest = len(bullets(finding)) - _MOST_SUBJECTS
    if rest > 0:
        yield from _bullet(f"and {rest} more (--format json lists all)", width)
    yield from _row(("remedy", "dim"), [(visible(finding.remedy), "")], width)


def _row(head: Span, spans: Sequence[Span], width: int) -> Iterator[_Line]:
    return hanging(head, wrapped(spans, width - _INDENT - _HEAD), _INDENT, _HEAD)


def _bullet(text: str, width: int) -> Iterator[_Line]:
    indent = _INDENT + _HEAD
    return hanging(("-", ""), wrapped([(text, "")], width - indent - 2), indent, 2)


def _accepted(ignored: Sequence[Ignored]) -> Iterator[list[Span]]:
    """Yield a line for each rule and reason, with a few of the files."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in ignored:
        alike.setdefault((one.finding.code, one.reason), []).append(one.finding.file or "the wheel")
    for (code, reason), places in alike.items():
        yield [(code, "bold"), (visible(f" {shorten(list(dict.fromkeys(places)))}: {reason}"), "")]


def _summary(report: Report) -> str:
    counts = Counter(w.findings[0].severity if w.findings else "clean" for w in report.wheels)
    words = {
        "error": "with errors",
        "warning": "with warnings",
        "info": "with information only",
        "clean": "clean",
    }
    parts = [f"{counts[k]} {words[k]}" for k in ("error", "warning", "info", "clean") if counts[k]]
    return f"{len(report.wheels)} {_kind(report)}: {', '.join(parts)}"


def _kind(report: Report) -> str:
    forms = {held.facts.form for held in report.wheels}
    if forms == {"installed"}:
        return "distributions"
    return "wheels" if forms <= {"wheel", "nested", "unpacked"} else "inputs"
