"""Finds the environment variables that tell a setup.py what to build, with the values that it compares them with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuforge.project.files import Where
from gpuforge.project.script_texts import last_name

_READS = frozenset({"getenv", "get", "pop"})
_NAME = r"[A-Z][A-Z0-9_]{2,60}"
_LONGEST = 40  # characters of a value


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable that a script reads, the text that it is compared with, and its default."""

    variable: str
    value: str  # "" if it is not compared with a text
    default: str
    where: Where


def switches(module: ast.Module, file: str) -> Iterator[Switch]:
    """Yield the variables that a script reads, once for each text that they are compared with."""
    names = _named(module)
    compared: dict[str, list[tuple[str, int]]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = [side.value for side in sides if isinstance(side, ast.Constant)]
            variables = {name for side in sides for name in _variables(side, names)}
            for name in variables:
                compared.setdefault(name, []).extend(
                    (text, node.lineno) for text in texts if isinstance(text, str) and text != name
                )
    seen: set[tuple[str, str]] = set()
    for node in ast.walk(module):
        for name, default in _reads(node):
            for value, line in compared.get(name) or [("", node.lineno)]:  # type: ignore[attr-defined]
                if (name, value) not in seen and len(value) <= _LONGEST:
                    seen.add((name, value))
                    yield Switch(name, value, default, Where(file, line))


def _reads(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the variable that an expression reads, and its default."""
    if isinstance(node, ast.Call):
        function = node.func
        last = last_name(function)
        texts = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
        of_environment = last == "getenv" or last_name(getattr(function, "value", function)) == "environ"
        if last in _READS and of_environment and texts and _is_name(texts[0]):
            default = texts[1] if len(texts) > 1 else ""
            yield str(texts[0]), default if isinstance(default, str) else ""
    elif isinstance(node, ast.Subscript) and last_name(node.value) == "environ":
        name = getattr(node.slice, "value", None)
        yield from [(name, "")] if isinstance(name, str) and _is_name(name) else []


def _is_name(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(_NAME, text) is not None


def _named(module: ast.Module) -> dict[str, str]:
    """Return the names that hold a variable's value: `v` after `v = os.environ["BACKEND"]`."""
    found = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            for inner in ast.walk(node.value):
                for name, _ in _reads(inner):
                    found[node.targets[0].id] = name
    return found


def _variables(side: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Yield the environment variables in one side of a comparison."""
    for node in ast.walk(side):
        if isinstance(node, ast.Name) and node.id in names:
            yield names[node.id]
        for name, _ in _reads(node):
            yield name
