"""Functions that load libraries and that nothing in their wheel calls: the user's code must call them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuforge.audit.read.python_source import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST = 500  # functions per file; each is followed through all the others


class Uncalled(NamedTuple):
    """The functions of a file through which all of its calls are reached, and the strings that only they reach."""

    functions: tuple[str, ...]
    strings: tuple[str, ...]


def uncalled(tree: ast.Module, calls: str) -> Uncalled | None:
    """Return the functions of a file that nothing in it uses, if only they lead to the calls of these names.

    None if a call is made on import, by a method, or by a function that the file uses otherwise.
    """
    functions = {node.name: node for node in tree.body if isinstance(node, _FUNCTIONS)}
    if len(functions) > _MOST:
        return None
    uses = {name: used_names(node.body) & functions.keys() for name, node in functions.items()}
    outside = [node for node in tree.body if not isinstance(node, _FUNCTIONS)]
    decorators = [each for node in functions.values() for each in node.decorator_list]
    # functions with a decorator may be called elsewhere, and Python calls __getattr__
    offered = {name for name, node in functions.items() if node.decorator_list or name.startswith("__")}
    used = _reached(offered | used_names([*outside, *decorators]) & functions.keys(), uses)
    calling = {name for name, node in functions.items() if _has_call(node.body, calls, functions)}
    if not calling or calling & used or _has_call(outside, calls, functions):
        return None
    leading = [name for name in functions if calling & _reached({name}, uses)]
    first = [name for name in leading if not any(name in uses[other] for other in leading if other != name)]
    nodes = [functions[name] for name in _reached(set(leading), uses) - used]
    strings = (n.value for n in walk(*nodes) if isinstance(n, ast.Constant))
    return Uncalled(tuple(first or leading), tuple(text for text in strings if isinstance(text, str)))


def used_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that code reads, also those of attributes; an import alone does not count."""
    found = set[str]()
    for node in walk(*nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def _has_call(nodes: Iterable[ast.AST], calls: str, functions: Mapping[str, object]) -> bool:
    """Return whether code calls a function of these names that is not defined in the file."""
    for node in (n for n in walk(*nodes) if isinstance(n, ast.Call)):
        if isinstance(node.func, ast.Attribute) and re.fullmatch(calls, node.func.attr):
            return True
        if (
            isinstance(node.func, ast.Name)
            and re.fullmatch(calls, name := node.func.id)
            and name not in functions
        ):
            return True
    return False


def _reached(start: set[str], uses: Mapping[str, set[str]]) -> set[str]:
    """Return the functions that these ones lead to, themselves included."""
    found, left = set(start), list(start)
    while left:
        more = uses[left.pop()] - found
        found |= more
        left += more
    return found
