"""The import package of a wheel: its folder, and the statements that gpuforge puts first into its `__init__.py`.

One is for the guard, by which a mixture of two builds fails at import; one imports the package whose libraries it uses.
"""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpuforge.errors import ActionError
from gpuforge.runtime.layout import GUARD


def find(tree: Path, import_package: str) -> Path | None:
    """Return the folder of an import package ("saxpy", "a.b") in an unpacked wheel, None if it has none."""
    below = Path(*import_package.split("."))
    return next((root / below for root in _roots(tree) if (root / below).is_dir()), None)


def folder(tree: Path, import_package: str) -> Path:
    """Return the folder of an import package in an unpacked wheel; raises ActionError if it has none."""
    found = find(tree, import_package)
    if found is not None:
        return found
    there = {
        path.name
        for root in _roots(tree)
        for path in root.iterdir()
        if path.is_dir() and path.name.isidentifier()
    }
    raise ActionError.of(
        f"the wheel has no package {import_package!r} to put the kernels in",
        hint=f"it has {', '.join(sorted(there)) or 'no package at all'}: set [package] import",
    )


def _roots(tree: Path) -> list[Path]:
    return [tree, *sorted(tree.glob("*.data/platlib")), *sorted(tree.glob("*.data/purelib"))]


STATEMENT = f"from . import {GUARD}  # refuses two builds of this package in one place".encode()

_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8


def guard(tree: Path, name: str, distribution: str, source: Path) -> str:
    """Put the guard `source` and the mark of `distribution` ("saxpy_cu13") into the import package `name`.

    A statement in its `__init__.py`, after the docstring and the `__future__` imports, imports the guard first. Returns
    "", or the reason why the guard was not put in: a package may have no `__init__.py`.
    """
    home = find(tree, name)
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


def import_first(tree: Path, name: str, module: str) -> str:
    """Make the import package `name` import `module` first, unless it has no `__init__.py`; return what holds now."""
    home = find(tree, name)
    if home is None or not (home / "__init__.py").is_file():
        return f"{name} does not import {module} first: the wheel has no {name}/__init__.py"
    init = home / "__init__.py"
    try:
        text = init.read_bytes()
        if imports(text, name, module):
            return f"{name} imports {module} first already"
        init.write_bytes(
            insert(text, f"import {module} as _{module}  # its libraries are loaded first".encode())
        )
    except (SyntaxError, ValueError) as error:
        return f"{name} does not import {module} first: its __init__.py cannot be read: {error}"
    return f"{name} imports {module} first now"


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
