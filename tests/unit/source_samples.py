"""What tests of gpuforge's own source share."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file of gpuforge. Tests that read all files are one group, so each is parsed once."""
    gc.disable()  # it would look for garbage among a million nodes, now and in every later test
    try:
        return ast.parse(path.read_text())
    finally:
        gc.freeze()
        gc.enable()


@cache
def statements(path: Path, *, types: bool = True) -> tuple[ast.AST, ...]:
    """Return every statement of a file, those for type checkers too; expressions, most of its nodes, hold none."""
    return tuple(_inside(parsed(path), types=types))


def _inside(node: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if types or not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield child
            yield from _inside(child, types=types)
