"""The audit's report for people: a verdict for each wheel, its findings by cause, and what was proved."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from gpuforge.audit.audit import Report, WheelReport
from gpuforge.audit.model import SEVERITIES, Finding, Ignored, Severity, WheelFacts
from gpuforge.audit.report import devices, tree
from gpuforge.audit.report.shown import shown as visible

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_MOST_SUBJECTS = 12
_LONGEST_SUBJECT = 220


def render(report: Report, *, width: int = 80, show_tree: bool = False, show_gpus: bool = False) -> str:
    """Return a report as text without colour, `width` characters wide, no line ending in spaces."""
    console = Console(
        file=io.StringIO(), width=width, highlight=False, color_system=None, force_terminal=False
    )
    with console.capture() as captured:
        show(report, console, show_tree=show_tree, show_gpus=show_gpus)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show(report: Report, console: Console, *, show_tree: bool = False, show_gpus: bool = False) -> None:
    """Print a report, with the link graph and the GPU tables where they are asked for.

    Inputs that could not be read are the caller's to tell.
    """
    shown = [held for held in report.wheels if not _is_dull(held)]
    for index, held in enumerate(shown):
        if index:
            console.print()
        _show_wheel(held, console)
        if show_tree:
            _show_tree(report, held.facts, console)
        if show_gpus:
            _show_code(held.facts, console)
    if show_gpus:
        _show_generations(report, console)
    if dull := len(report.wheels) - len(shown):
        has = (
            "s have no binaries, and nothing was found in them"
            if dull > 1
            else " has no binaries, and nothing was found in it"
        )
        console.print()
        console.print(Text(f"{dull} more installed distribution{has}"))
    if len(report.wheels) > 1:
        console.print()
        console.print(_summary(report))


def _is_dull(held: WheelReport) -> bool:
    """Say whether something is there only because the whole environment was given."""
    facts = held.facts
    return facts.form == "installed" and not (facts.objects or facts.device or held.findings or held.ignored)


def _show_wheel(held: WheelReport, console: Console) -> None:
    console.print(Text(visible(held.facts.name), style="bold", overflow="fold"))
    console.print(
        Padding(Text.assemble(_verdict(held.findings), (f"; {_size(held.facts)}", "dim")), (0, 0, 0, 2))
    )
    for finding in held.findings:
        console.print()
        console.print(_finding(finding))
    if held.ignored:
        console.print()
        console.print(_rows([("accepted", _accepted(i)) for i in held.ignored], "dim"))
    if held.proofs:
        console.print()
        console.print(
            _rows(
                [("proved", Text.assemble((p.topic, "bold"), ": ", visible(p.text))) for p in held.proofs],
                "green",
            )
        )


def _size(facts: WheelFacts) -> str:
    parts = [f"{facts.size / 1e6:.1f} MB" if facts.size >= 1e6 else f"{facts.size / 1e3:.1f} kB"]
    parts += [f"{len(facts.objects)} ELF file{'s' * (len(facts.objects) != 1)}"] if facts.objects else []
    parts += [f"GPU code in {len(facts.device)}"] if facts.device else []
    return ", ".join(parts)


def _show_tree(report: Report, facts: WheelFacts, console: Console) -> None:
    for root in tree.roots(report.graph, facts):
        console.print()
        shown = Tree(Text(root.name, style="bold", overflow="fold"), guide_style="dim")
        _grow(shown, root)
        console.print(Padding(shown, (0, 0, 0, 2)))


def _grow(shown: Tree, node: tree.Node) -> None:
    for child in node.children:
        style = "" if child.found else "bold red"
        _grow(
            shown.add(
                Text.assemble((child.name, style), (tree.told(child), style or "dim"), overflow="fold")
            ),
            child,
        )


def _show_code(facts: WheelFacts, console: Console) -> None:
    by_files: dict[tuple[str, ...], list[devices.Code]] = {}
    for row in devices.code(facts):
        by_files.setdefault(row.files, []).append(row)
    for names, rows in by_files.items():
        console.print()
        console.print(
            Padding(Text("\n".join(map(visible, names)), style="bold", overflow="fold"), (0, 0, 0, 2))
        )
        console.print(Padding(_code_table(rows), (0, 0, 0, 4)))
        console.print(Padding(Text(devices.runs_on(facts, names[0]), style="dim"), (0, 0, 0, 4)))


def _code_table(rows: Sequence[devices.Code]) -> Table:
    cells = [
        (
            f"{row.count} in {row.section}" if row.section else str(row.count),
            _short(row.cubins, "sm_"),
            _short(row.ptx, "compute_"),
            row.toolkit,
            row.packing,
            f"{row.stored / 1e6:.1f}",
            row.driver,
        )
        for row in rows
    ]
    headings = ("containers", "machine code", "PTX", "CUDA", "packed", "MB", "driver")
    shown = [column for column in range(len(headings)) if any(row[column] for row in cells)]
    table = _table(*(headings[column] for column in shown))
    for row in cells:
        table.add_row(*(row[column] for column in shown))
    return table


def _short(archs: Sequence[str], prefix: str) -> str:
    """Write "sm_80 90 100a" for a list of architectures."""
    return " ".join([*archs[:1], *(arch.removeprefix(prefix) for arch in archs[1:])]) or "none"


def _show_generations(report: Report, console: Console) -> None:
    found = devices.generations(report)
    if not found.wheels:
        return
    console.print()
    console.print(Text("GPU generations", style="bold"))
    for number, wheel in enumerate(found.wheels, start=1):
        console.print(Padding(Text(f"[{number}] {visible(wheel)}", overflow="fold"), (0, 0, 0, 2)))
    table = _table("capability", "GPUs", *(f"[{n}]" for n in range(1, len(found.wheels) + 1)))
    for row in found.rows:
        table.add_row(row.capability, row.name, *row.verdicts)
    console.print(Padding(table, (0, 0, 0, 2)))


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(Text(heading, style="dim"), overflow="fold", no_wrap=not index)
    return table


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
    table.add_row(head, Text.assemble((finding.code, "bold"), " ", visible(finding.message)))
    for subject in finding.subject[:_MOST_SUBJECTS]:
        table.add_row("", _bullet(_shortened(visible(subject))))
    rest = len(finding.subject) - _MOST_SUBJECTS
    if rest > 0:
        table.add_row("", _bullet(f"and {rest} more (--format json lists all)"))
    table.add_row(Text("remedy", style="dim"), Text(visible(finding.remedy)))
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
    return Text.assemble(
        (ignored.finding.code, "bold"), visible(f" {ignored.finding.file}: {ignored.reason}")
    )


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
    return Text(f"{len(report.wheels)} {_kind(report)}: {', '.join(parts)}", style="bold")


def _kind(report: Report) -> str:
    forms = {held.facts.form for held in report.wheels}
    if forms == {"installed"}:
        return "distributions"
    return "wheels" if forms <= {"wheel", "nested", "unpacked"} else "inputs"
