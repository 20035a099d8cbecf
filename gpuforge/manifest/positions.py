"""Where each key and value of a TOML text stands, found with tree-sitter (TOML parsers keep no positions)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import tomli
import tree_sitter
import tree_sitter_toml
from tree_sitter import Node

from gpuforge.manifest.problem import KeyPath

Position = tuple[int, int]
"""Line and column, both from 1, the column in characters."""

_KEYS = frozenset({"bare_key", "quoted_key"})
_PUNCTUATION = frozenset({"[", "]", ",", "{", "}", "=", "comment", "ERROR"})


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of one document. A table's value stands at its header or opening brace."""

    keys: dict[KeyPath, Position] = field(default_factory=dict)
    values: dict[KeyPath, Position] = field(default_factory=dict)

    def key(self, path: KeyPath) -> Position | None:
        """Return where the last key of `path` is written, else where its nearest ancestor's value begins."""
        return self.keys.get(path) or self.value(path)

    def value(self, path: KeyPath) -> Position | None:
        """Return where the value of `path`, or of the nearest ancestor written, begins; None at the top."""
        for length in range(len(path), 0, -1):
            if position := self.values.get(path[:length]):
                return position
        return None


@lru_cache(maxsize=8)
def locate(text: str) -> Positions:
    """Find every key and value of a TOML document that `tomli` accepts.

    The grammar is that of TOML 1.0. `tomli` also reads 1.1, so some keys in the syntax of 1.1 may not be found.
    """
    return _Locator(text.encode()).locate()


class _Locator:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lines = data.split(b"\n")
        self.positions = Positions()
        self.array_tables: dict[KeyPath, int] = {}  # how many elements each [[array of tables]] has so far

    def locate(self) -> Positions:
        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
        for node in parser.parse(self.data).root_node.children:
            if node.type == "pair":
                self._pairs([(node, ())])
            elif node.type in {"table", "table_array_element"}:
                path = self._header(node)
                self._pairs([(child, path) for child in node.children if child.type == "pair"])
        return self.positions

    def _header(self, node: Node) -> KeyPath:
        """Record a `[table]` or `[[element]]` header and return the path of the table that it opens."""
        names = list(_names(node.children[1]))
        path: KeyPath = ()
        for index, (key, name) in enumerate(names, start=1):
            path = (*path, name)
            self._record_key(path, key)
            if index == len(names) and node.type == "table_array_element":
                self.positions.values.setdefault(path, self._position(node))
                self.array_tables[path] = self.array_tables.get(path, -1) + 1
            if path in self.array_tables:
                path = (*path, self.array_tables[path])
        self.positions.values[path] = self._position(node)
        return path

    def _pairs(self, pending: list[tuple[Node, KeyPath]]) -> None:
        """Record `key = value` pairs and all that is nested in them."""
        while pending:
            node, path = pending.pop()
            if node.type == "pair":
                for key, name in _names(node.children[0]):
                    path = (*path, name)
                    self._record_key(path, key)
                written = [child for child in node.children[1:] if child.type not in _PUNCTUATION]
                if not written:
                    continue
                node = written[0]
            self.positions.values[path] = self._position(node)
            if node.type == "array":
                items = [child for child in node.children if child.type not in _PUNCTUATION]
                pending.extend((item, (*path, index)) for index, item in enumerate(items))
            elif node.type == "inline_table":
                pending.extend((child, path) for child in node.children if child.type == "pair")

    def _record_key(self, path: KeyPath, key: Node) -> None:
        position = self._position(key)
        self.positions.keys.setdefault(path, position)
        # a table that is only implied stands where it is first named
        self.positions.values.setdefault(path, position)

    def _position(self, node: Node) -> Position:
        row, column = node.start_point
        return row + 1, len(self.lines[row][:column].decode(errors="replace")) + 1


def _names(node: Node) -> Iterator[tuple[Node, str]]:
    """Yield the single keys of a dotted key, in order, each with the name that it stands for."""
    pending = [node]
    while pending:
        key = pending.pop()
        if key.type in _KEYS:
            text = (key.text or b"").decode(errors="replace")
            yield key, text if key.type == "bare_key" else _unquoted(text)
        else:
            pending.extend(reversed(key.children))


def _unquoted(key: str) -> str:
    try:
        return next(iter(tomli.loads(f"{key}=0")))
    except tomli.TOMLDecodeError:  # split by the grammar, which did not understand the text around it
        return key
