"""Finds the frameworks that the import of a wheel's packages imports, whatever the machine."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from gpuforge.audit.read.python_source import walk
from gpuforge.cuda.carriers import frameworks

if TYPE_CHECKING:
    from gpuforge.audit.read.loading_code import PythonCode


_MOST = 40  # files that are followed
_LARGEST = 1 << 18  # bytes of one
_FIRST = r"((?:[^/]+\.data/(?:purelib|platlib)/)?)[^/]+/__init__\.py"
# at the beginning of a line an import is not conditional, unless it is in a string
_IMPORTS = re.compile(
    rb"(?m)^(?:from[ \t]+(\.?[\w.]*)[ \t]+import[ \t]+(\*|[\w, \t]+|\([\w,\s]+\))|import[ \t]+([\w.]+))"
)


def framework_imports(code: PythonCode) -> Mapping[str, str]:
    """Return the frameworks that are imported with a package of the wheel, each with the first file that does.

    Imports of the wheel's own modules are followed, if they are not conditional.
    """
    files = {member.name: member for member in code.members if member.name.endswith(".py")}
    tops = {name: match[1] for name in files if (match := re.fullmatch(_FIRST, name))}
    queue = deque(tops)
    seen = set(queue)
    found: dict[str, str] = {}
    for _ in range(_MOST):
        if not queue:
            break
        name = queue.popleft()
        text = code.text(files[name]) if files[name].size <= _LARGEST else b""
        for each in frameworks():
            if each.package not in found and _imports(text, each.package):
                found[each.package] = name
        for path in _own_modules(text, name, set(tops.values())):
            further = {f"{path}.py", f"{path}/__init__.py"} & files.keys() - seen
            seen |= further
            queue += further
    return found


def _own_modules(text: bytes, file: str, roots: Collection[str]) -> Iterator[str]:
    """Yield the paths, without their endings, of modules that a file may import: of the wheel, if they are there."""
    folder = file.rpartition("/")[0]
    for module, names, plain in _IMPORTS.findall(text):
        dotted = (module or plain).decode()
        places = [f"{folder}/"] if dotted.startswith(".") else roots
        parts = [part for part in dotted.split(".") if part]
        further = [name.decode() for name in re.findall(rb"\w+", names)]
        for place in places:
            yield from (place + "/".join(parts[:count]) for count in range(1, len(parts) + 1))
            yield from (place + "/".join([*parts, name]) for name in further)


def _imports(text: bytes, package: str) -> bool:
    """Return whether a file imports a package outside of functions, conditions and `try`."""
    if not re.search(rb"(?m)^(?:import|from)[ \t]+%b\b" % package.encode(), text):
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] == package for name in names):
            return True
    return False


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
