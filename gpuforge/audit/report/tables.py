"""Draws the link graph and the GPU code with rich: the parts of the text report that are shown on request."""

import io
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from gpuforge.audit.judge import Report
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.report import devices, link_tree
from gpuforge.diagnostics import shown as visible
from gpuforge.grouping import grouped

_BETWEEN = 3  # between columns of a table
_INDENT, _GUIDE = 2, 4  # columns of the indent before a drawing, and of each level of a tree


class Drawing:
    """Draws parts of a report as lines of text, `width` characters wide, with colour or without."""

    def __init__(self, width: int, *, color: bool) -> None:
        self._width = width
        self._console = Console(
            file=io.StringIO(),
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            color_system="standard" if color else None,
            force_terminal=color,
        )

    def tree(self, report: Report, facts: WheelFacts) -> list[str]:
        """Draw the libraries that each object of a wheel loads."""
        nodes = link_tree.roots(report.graph, facts)
        self._console.width = max(self._width, *map(_widest, nodes), 0)
        with self._console.capture() as captured:
            for root in nodes:
                _show_tree(root, self._console)
        self._console.width = self._width
        return _lines(captured.get())

    def code(self, facts: WheelFacts) -> list[str]:
        """Draw the GPU code of a wheel's files."""
        with self._console.capture() as captured:
            _show_code(facts, self._console)
        return _lines(captured.get())

    def generations(self, report: Report) -> list[str]:
        """Draw how wheels run on the generations of GPUs."""
        with self._console.capture() as captured:
            _show_generations(report, self._console)
        return _lines(captured.get())


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def _show_tree(root: link_tree.Node, console: Console) -> None:
    console.print()
    drawn = Tree(Text("\n".join(root.names), style="bold"), guide_style="dim")
    _grow(drawn, root)
    console.print(Padding(drawn, (0, 0, 0, _INDENT)))


def _grow(drawn: Tree, node: link_tree.Node) -> None:
    for child in node.children:
        style = "" if child.found else "bold red"
        text = Text.assemble((" ".join(child.names), style), (link_tree.after_name(child), style or "dim"))
        _grow(drawn.add(text), child)


def _widest(node: link_tree.Node) -> int:
    """Return the columns that a tree takes if none of its names is broken."""
    words = f"{' '.join(node.names)}{link_tree.after_name(node)}".split()
    own = max(map(cell_len, words), default=0)
    return _INDENT + max(own, *(_GUIDE + _widest(child) - _INDENT for child in node.children), 0)


def _show_code(facts: WheelFacts, console: Console) -> None:
    for names, rows in grouped((row.files, row) for row in devices.code(facts)).items():
        console.print()
        for name in names:
            _show_name(visible(name), "bold", console)
        console.print(Padding(_code_table(rows, console.width - 4), (0, 0, 0, 4)))
        console.print(Padding(Text(devices.runs_on(facts, names[0]), style="dim"), (0, 0, 0, 4)))


def _show_name(name: str, style: str, console: Console) -> None:
    """Print a name on its own line, not broken even if it is wider than the terminal."""
    text = Text.assemble(" " * _INDENT, (name, style))
    console.print(text, no_wrap=True, overflow="ignore", crop=False)


def _code_table(rows: Sequence[devices.Code], width: int) -> Table:
    cells = [
        (
            f"{row.count} in {row.section}" if row.section else str(row.count),
            _short([arch.sm for arch in row.cubins], [arch.number for arch in row.cubins]),
            _short([each.text for each in row.ptx], [each.short for each in row.ptx]),
            row.toolkit,
            row.packing,
            _megabytes(row.stored),
            row.driver,
        )
        for row in rows
    ]
    headings = ("containers", "machine code", "PTX", "CUDA", "packed", "MB", "driver")
    shown = [column for column in range(len(headings)) if any(row[column] for row in cells)]
    table = _table(*(headings[column] for column in shown))
    texts = [[headings[column], *(row[column] for row in cells)] for column in shown]
    for column, wide in zip(table.columns, _widths(texts, width), strict=True):
        column.no_wrap, column.width = False, wide
    for row in cells:
        table.add_row(*(row[column] for column in shown))
    return table


def _megabytes(size: int) -> str:
    """Write bytes as MB with at least one digit that is not zero: "22.7", "0.0206"."""
    return f"{size / 1e6:.1f}" if size >= 100_000 else f"{max(size, 100) / 1e6:.4f}"


def _widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of a table's columns: each its longest word, and the rest for those with longer lines.

    rich alone breaks words in one column while another one still has lines to wrap.
    """
    found = [max(len(word) for text in texts for word in text.split()) for texts in columns]
    longest = [max(map(len, texts)) for texts in columns]
    free = width - _BETWEEN * (len(columns) - 1) - sum(found)
    while free > 0 and found != longest:
        for index, most in enumerate(longest):
            if found[index] < most and free > 0:
                found[index] += 1
                free -= 1
    return found


def _short(whole: Sequence[str], numbers: Sequence[str]) -> str:
    """Write "sm_80 90 100a" for a list of architectures."""
    return " ".join([*whole[:1], *numbers[1:]]) or "none"


def _show_generations(report: Report, console: Console) -> None:
    wheels, rows = devices.generations(report)
    if not wheels:
        return
    console.print()
    console.print(Text("GPU generations", style="bold"))
    for number, wheel in enumerate(wheels, start=1):
        _show_name(f"[{number}] {visible(wheel)}", "", console)
    table = _table("capability", "GPUs", *(f"[{n}]" for n in range(1, len(wheels) + 1)))
    for row in rows:
        table.add_row(*row)
    console.print(Padding(table, (0, 0, 0, _INDENT)))


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(Text(heading, style="dim"), overflow="fold", no_wrap=not index)
    return table
