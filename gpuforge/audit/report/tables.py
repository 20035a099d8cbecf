"""Draws the link graph and the GPU code with rich: the parts of the text report that are shown on request."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from gpuforge.audit.judge import Report
from gpuforge.audit.link.edges import Edge, Key
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.report import devices
from gpuforge.binary.facts import ElfObject
from gpuforge.diagnostics import shown
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
        nodes = roots(report.graph, facts)
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


def _show_tree(root: Node, console: Console) -> None:
    console.print()
    drawn = Tree(Text("\n".join(root.names), style="bold"), guide_style="dim")
    _grow(drawn, root)
    console.print(Padding(drawn, (0, 0, 0, _INDENT)))


def _grow(drawn: Tree, node: Node) -> None:
    for child in node.children:
        style = "" if child.found else "bold red"
        text = Text.assemble((" ".join(child.names), style), (after_name(child), style or "dim"))
        _grow(drawn.add(text), child)


def _widest(node: Node) -> int:
    """Return the columns that a tree takes if none of its names is broken."""
    words = f"{' '.join(node.names)}{after_name(node)}".split()
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


_DEEPEST = 100  # levels of a tree; real ones have ten
_SOURCES = {"driver": "the driver", "system": "the system"}


@dataclass(slots=True)
class Node:
    """A line of the tree; a root has a line for each of its names. `found` is False if no route leads to it."""

    names: list[str]
    provider: str = ""  # "" at a root
    route: str = ""
    found: bool = True
    children: list[Node] = field(default_factory=list)


def roots(graph: LinkGraph, wheel: WheelFacts) -> list[Node]:
    """Return a tree for each load root of a wheel; roots with the same libraries below them are one with several names.

    Below a root each object is opened once, and libraries of the system are listed at the root alone.
    """
    found: dict[tuple[object, ...], Node] = {}
    for loaded in graph.load_sets:
        if loaded.root.wheel != wheel.name:
            continue
        node = Node([shown(loaded.root.file)], children=_children(graph, loaded.root, {_key(loaded.root)}))
        look = _look(node)[1:]
        if known := found.get(look):
            known.names += node.names
            continue
        found[look] = node
    for node in found.values():
        node.children = node.children or [Node(["nothing is NEEDED"])]
    return list(found.values())


def _look(node: Node) -> tuple[object, ...]:
    return (*node.names, node.provider, node.route, *map(_look, node.children))


def after_name(node: Node) -> str:
    """Return what follows the name on a line of the tree."""
    if not node.provider:
        return ""
    return f" → {node.provider}" + (f", {node.route}" if node.route else "")


def _children(graph: LinkGraph, loader: ElfObject, opened: set[Key], depth: int = 0) -> list[Node]:
    found: list[Node] = []
    leaves: dict[tuple[str, str], Node] = {}
    system: Node | None = None
    for edge in graph.from_object(loader):
        node = _node(graph, edge, opened, depth)
        if edge.provider.object is not None:
            found.append(node)
        elif edge.provider.source == "system":
            system = _joined(system, node)
        elif known := leaves.get((node.provider, node.route)):
            _joined(known, node)
        else:
            leaves[node.provider, node.route] = node
            found.append(node)
    return [*found, *([system] if system and not depth else [])]


def _joined(known: Node | None, node: Node) -> Node:
    """Put a library on the line of others that come from the same place in the same way."""
    if known is None:
        return node
    known.names += node.names
    return known


def _node(graph: LinkGraph, edge: Edge, opened: set[Key], depth: int) -> Node:
    target = edge.provider.object
    node = Node(
        [shown(edge.needed)], shown(_provider(edge)), shown(_route(edge)), bool(edge.route or edge.preload)
    )
    if target is None:
        return node
    if _key(target) in opened:
        if any(edge.provider.source != "system" for edge in graph.from_object(target)):
            node.route = f"{node.route}; above"
        return node
    if depth == _DEEPEST:
        node.route = f"{node.route}; what it needs is left out"
        return node
    opened.add(_key(target))
    node.children = _children(graph, target, opened, depth + 1)
    return node


def _provider(edge: Edge) -> str:
    provider = edge.provider
    match provider.source:
        case "wheel" | "sibling" if provider.object:
            folder, _, name = provider.object.file.rpartition("/")
            file = f"{folder or '.'}/" if name == edge.needed else provider.object.file
            return file if provider.source == "wheel" else f"{file} of {provider.object.wheel}"
        case "package":
            known = provider.declared
            extra = f" (extra {known.extra})" if known and known.extra else ""
            return f"{provider.package}{extra}" + ("" if known else " (not declared)")
        case "nobody":
            return "nobody"
    return _SOURCES[provider.source]


def _route(edge: Edge) -> str:
    if edge.provider.source in _SOURCES:
        return ""
    if edge.route:
        return "already loaded" if edge.route.kind == "loaded" else f"by {edge.route}"
    if edge.preload:
        return f"loaded before it by {edge.preload.file}"
    return "" if edge.provider.source == "nobody" else "no path leads to it"


def _key(binary: ElfObject) -> Key:
    return binary.wheel, binary.file
