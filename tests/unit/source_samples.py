"""What tests of gpuforge's own source share."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(node: ast.AST, *, types: bool = True) -> Iterator[ast.AST]:
    """Yield every statement of a tree, those for type checkers too; expressions, most of its nodes, hold none."""
    for child in ast.iter_child_nodes(node):
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        if not isinstance(child, ast.expr) and (types or not for_types):
            yield child
            yield from statements(child, types=types)
