"""The link graph as a tree: objects that Python or a user starts, their NEEDED libraries, and the routes to these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuforge.audit.link.edges import Edge, Key
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.diagnostics import shown

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


def lines(graph: LinkGraph, wheel: WheelFacts) -> list[str]:
    """Return the tree as lines of text with box characters."""
    found: list[str] = []
    for node in roots(graph, wheel):
        found += [*node.names, *_below(node, "")]
    return found or ["nothing in it is loaded by the dynamic linker"]


def after_name(node: Node) -> str:
    """Return what follows the name on a line of the tree."""
    if not node.provider:
        return ""
    return f" → {node.provider}" + (f", {node.route}" if node.route else "")


def _below(node: Node, indent: str) -> Iterator[str]:
    for index, child in enumerate(node.children):
        last = index == len(node.children) - 1
        yield f"{indent}{'└── ' if last else '├── '}{' '.join(child.names)}{after_name(child)}"
        yield from _below(child, indent + ("    " if last else "│   "))


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
