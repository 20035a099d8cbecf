"""Makes a wheel's package import the packages whose libraries it uses before its own modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gpuforge.package import guard, import_package
from gpuforge.runtime.layout import GUARD


def embed(tree: Path, name: str, module: str) -> str:
    """Make the import package `name` import `module` first; return "", or the reason why nothing was changed."""
    home = import_package.find(tree, name)
    if home is None or not (home / "__init__.py").is_file():
        return f"the wheel has no {name}/__init__.py"
    init = home / "__init__.py"
    try:
        text = init.read_bytes()
        if imports(text, name, module):
            return f"{name}/__init__.py imports it before its own modules"
        init.write_bytes(
            guard.insert(text, f"import {module} as _{module}  # its libraries are loaded first".encode())
        )
    except (SyntaxError, ValueError) as error:
        return f"{name}/__init__.py cannot be read: {error}"
    return ""


def imports(source: bytes, name: str, module: str) -> bool:
    """Return whether a package's source always imports a module before any module of its own."""
    for statement in ast.parse(source).body:
        for top in _imported(statement):
            if top == module:
                return True
            if top in ("", name.partition(".")[0]):
                return False
    return False


def _imported(statement: ast.stmt) -> Iterator[str]:
    """Yield the top names that a statement imports; "" for the package's own modules except gpuforge's guard."""
    if isinstance(statement, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom) and not statement.level:
        yield (statement.module or "").partition(".")[0]
    elif isinstance(statement, ast.ImportFrom) and [alias.name for alias in statement.names] != [GUARD]:
        yield ""
