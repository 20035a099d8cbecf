"""The audit's report for people: a verdict for each wheel, its findings by cause, and what was proved."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpuforge.audit.audit import Report, WheelReport
from gpuforge.audit.model import SEVERITIES, Finding, Ignored, Severity

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_MOST_SUBJECTS = 12
_LONGEST_SUBJECT = 220


def render(report: Report, *, width: int = 80) -> str:
    """Return a report as text without colour, `width` characters wide, no line ending in spaces."""
    console = Console(
        file=io.StringIO(), width=width, highlight=False, color_system=None, force_terminal=False
    )
    with console.capture() as captured:
        show(report, console)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show(report: Report, console: Console) -> None:
    """Print a report; inputs that could not be read are the caller's to tell."""
    for index, held in enumerate(report.wheels):
        if index:
            console.print()
        _show_wheel(held, console)
    if len(report.wheels) > 1:
        console.print()
        console.print(_summary(report))


def _show_wheel(held: WheelReport, console: Console) -> None:
    console.print(Text(held.facts.name, style="bold", overflow="fold"))
    console.print(Padding(_verdict(held.findings), (0, 0, 0, 2)))
    for finding in held.findings:
        console.print()
        console.print(_finding(finding))
    if held.ignored:
        console.print()
        console.print(_rows([("accepted", _accepted(i)) for i in held.ignored], "dim"))
    if held.proofs:
        console.print()
        console.print(
            _rows([("proved", Text.assemble((p.topic, "bold"), ": ", p.text)) for p in held.proofs], "green")
        )


def _verdict(findings: Sequence[Finding]) -> Text:
    counts = Counter(f.severity for f in findings)
    if not counts:
        return Text("clean: nothing was found", style="bold green")
    parts = [(_count(counts[s], s), _STYLES[s]) for s in SEVERITIES if counts[s]]
    return Text(", ").join([Text(words, style=style) for words, style in parts])


def _count(number: int, severity: Severity) -> str:
    if severity == "info":
        return f"{number} for information"
    return f"{number} {severity}" + ("s" if number > 1 else "")


def _finding(finding: Finding) -> RenderableType:
    table = _grid()
    head = Text.assemble((finding.severity, _STYLES[finding.severity]))
    table.add_row(head, Text.assemble((finding.code, "bold"), " ", finding.message))
    for subject in finding.subject[:_MOST_SUBJECTS]:
        table.add_row("", _bullet(_shortened(subject)))
    rest = len(finding.subject) - _MOST_SUBJECTS
    if rest > 0:
        table.add_row("", _bullet(f"and {rest} more (--format json lists all)"))
    table.add_row(Text("remedy", style="dim"), Text(finding.remedy))
    return Padding(table, (0, 0, 0, 2))


def _shortened(subject: str) -> str:
    """Cut a long enumeration; the JSON report has all of it."""
    if len(subject) <= _LONGEST_SUBJECT or (cut := subject.rfind(", ", 0, _LONGEST_SUBJECT - 20)) < 0:
        return subject
    return f"{subject[:cut]}, and {subject[cut:].count(', ')} more"


def _bullet(text: str) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row("-", Text(text, overflow="fold"))
    return row


def _accepted(ignored: Ignored) -> Text:
    return Text.assemble((ignored.finding.code, "bold"), f" {ignored.finding.file}: {ignored.reason}")


def _rows(rows: Sequence[tuple[str, Text]], style: str) -> RenderableType:
    table = _grid()
    for head, text in rows:
        table.add_row(Text(head, style=style), text)
    return Padding(table, (0, 0, 0, 2))


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=8, no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _summary(report: Report) -> Text:
    counts = Counter(w.findings[0].severity if w.findings else "clean" for w in report.wheels)
    words = {
        "error": "with errors",
        "warning": "with warnings",
        "info": "with information only",
        "clean": "clean",
    }
    parts = [f"{counts[k]} {words[k]}" for k in ("error", "warning", "info", "clean") if counts[k]]
    return Text(f"{len(report.wheels)} wheels: {', '.join(parts)}", style="bold")
