"""Finds Python code that refuses another value than its own: torch with another CUDA release."""

from __future__ import annotations

import ast

from gpuforge.audit.read.python_source import walk


def refuses_another(tree: ast.Module, name: str) -> bool:
    """Return whether a function reads `name` and raises an error if two computed values differ."""
    functions = (n for n in walk(tree) if isinstance(n, ast.FunctionDef))
    return any(_reads(function, name) and _raises_if_different(function) for function in functions)


def _reads(function: ast.FunctionDef, name: str) -> bool:
    last = name.rpartition(".")[2]
    found = (n for n in walk(function) if isinstance(n, ast.Attribute) and n.attr == last)
    return any(_dotted(node) == name for node in found)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _raises_if_different(function: ast.FunctionDef) -> bool:
    return any(
        _differ(node.test) and _raises(node.body) for node in walk(function) if isinstance(node, ast.If)
    )


def _differ(test: ast.expr) -> bool:
    """Return whether an expression compares two values that are not literals."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.NotEq)
        and not any(isinstance(side, ast.Constant) for side in (test.left, *test.comparators))
    )


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Raise) for each in body)
