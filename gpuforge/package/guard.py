"""Puts the guard into wheels whose builds share an import package: a mixture of two builds fails at import."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

from gpuforge.package import import_package
from gpuforge.runtime.layout import GUARD

STATEMENT = f"from . import {GUARD}  # refuses two builds of this package in one place".encode()

_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8


def embed(tree: Path, name: str, distribution: str, source: Path) -> str:
    """Put the guard `source` and the mark of `distribution` ("saxpy_cu13") into the import package `name`.

    A statement in its `__init__.py`, after the docstring and the `__future__` imports, imports the guard first. Returns
    "", or the reason why the guard was not put in: a package may have no `__init__.py`.
    """
    home = import_package.find(tree, name)
    if home is None:
        return f"the wheel has no package {name}"
    init = home / "__init__.py"
    if not init.is_file():
        return f"{name} has no __init__.py"
    text = init.read_bytes()
    try:
        guarded = insert(text)
    except (SyntaxError, ValueError) as error:
        return f"{name}/__init__.py cannot be read: {error}"
    if (home / GUARD).exists():
        return f"{name} has a folder {GUARD} already"
    init.write_bytes(guarded)
    (home / GUARD).mkdir()
    shutil.copyfile(source, home / GUARD / "__init__.py")
    (home / GUARD / f"{distribution}.build").write_text("", encoding="utf-8")
    return ""


def insert(source: bytes, statement: bytes = STATEMENT) -> bytes:
    """Return a module's source with a statement after the docstring and the `__future__` imports.

    Raises SyntaxError or ValueError for a file that is not Python source.
    """
    mark = _MARK if source.startswith(_MARK) else b""
    source = source.removeprefix(_MARK)
    body = ast.parse(source).body
    leading = 0
    while leading < len(body) and _must_lead(body[leading], leading):
        leading += 1
    lines = source.splitlines(keepends=True)
    newline = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    at = (body[leading - 1].end_lineno or 0) if leading else _comments(lines)
    if at and not lines[at - 1].endswith((b"\n", b"\r")):
        lines[at - 1] += newline
    return b"".join([mark, *lines[:at], statement, newline, *lines[at:]])


def _must_lead(statement: ast.stmt, position: int) -> bool:
    docstring = (
        position == 0
        and isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
    return docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _comments(lines: list[bytes]) -> int:
    """Count the comment lines at the top: the first two may have the encoding."""
    count = 0
    while count < len(lines) and lines[count].startswith(b"#"):
        count += 1
    return count
