"""Finds the frameworks that the import of a wheel's packages imports, whatever the machine."""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuforge.audit.read.python_source import dotted, walk
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
    for node in _statements(text) or ():
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] == package for name in names):
            return True
    return False


def _statements(text: bytes) -> list[ast.stmt] | None:
    """Return the statements of a file; None if Python cannot import it."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_first(code: PythonCode) -> frozenset[str]:
    """Return the extension modules that a package imports before any code that may import a package of others.

    A library of torch that one of them needs is not there yet, even if the package imports torch afterwards.
    """
    order = _Order(code)
    for name in order.files:
        if re.fullmatch(_FIRST, name):
            order.run(name)
    return frozenset(order.modules)


class _Order:
    """The imports of a wheel's files in the order in which Python runs them."""

    def __init__(self, code: PythonCode) -> None:
        self.files = {member.name: member for member in code.members}
        self.modules: set[str] = set()  # those that are imported first
        self._code = code
        self._binaries: dict[str, list[str]] = {}  # by their path without the ending
        for name in self.files:
            if name.endswith(".so"):
                folder, _, file = name.rpartition("/")
                self._binaries.setdefault(f"{folder}/{file.partition('.')[0]}", []).append(name)
        self._running: set[str] = set()

    def run(self, name: str) -> bool:
        """Note the modules that a file imports first; return whether to go on with what imports the file."""
        if name in self._running:
            return True
        self._running.add(name)
        if len(self._running) > _MOST or self.files[name].size > _LARGEST:
            return False
        body = _statements(self._code.text(self.files[name]))
        return body is not None and all(self._goes_on(node, name) for node in body)

    def _goes_on(self, node: ast.stmt, file: str) -> bool:
        """Follow a statement; return False for one that may import anything."""
        if isinstance(node, ast.Import):
            return all(self._import(alias.name, (), file) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            return self._import(f"{dots}{node.module or ''}", [each.name for each in node.names], file)
        plain = isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign | ast.FunctionDef)
        return plain and not any(isinstance(each, ast.Call | ast.Await) for each in _run_now(node))

    def _import(self, module: str, names: Sequence[str], file: str) -> bool:
        start = file
        for _ in range(len(module) - len(module.lstrip("."))):
            start = start.rpartition("/")[0]
        parts = [part for part in module.split(".") if part]
        root = f"{start}/" if module.startswith(".") else file.rpartition("/")[0].partition("/")[0] + "/"
        if not module.startswith("."):
            if parts[0] in sys.stdlib_module_names:
                return True
            if f"{parts[0]}/" != root:
                return False
            root = ""
        paths = [root + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        paths += [root + "/".join([*parts, name]) for name in names]
        return all(self._import_path(path) for path in paths)

    def _import_path(self, path: str) -> bool:
        for file in (f"{path}/__init__.py", f"{path}.py"):
            if path not in self._binaries and file in self.files:
                return self.run(file)
        self.modules.update(self._binaries.get(path, ()))
        return True


def _run_now(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the code that a statement runs by itself: of a function its decorators and defaults."""
    if isinstance(node, ast.FunctionDef):
        return walk(*node.decorator_list, node.args)
    return walk(node)


def refuses_another(tree: ast.Module, name: str) -> bool:
    """Return whether a function reads `name` and raises an error if two computed values differ."""
    functions = (n for n in walk(tree) if isinstance(n, ast.FunctionDef))
    return any(_reads(function, name) and _raises_if_different(function) for function in functions)


def _reads(function: ast.FunctionDef, name: str) -> bool:
    last = name.rpartition(".")[2]
    found = (n for n in walk(function) if isinstance(n, ast.Attribute) and n.attr == last)
    return any(dotted(node) == name for node in found)


def _raises_if_different(function: ast.FunctionDef) -> bool:
    tests = (node for node in walk(function) if isinstance(node, ast.If) and _differ(node.test))
    return any(isinstance(each, ast.Raise) for node in tests for each in node.body)


def _differ(test: ast.expr) -> bool:
    """Return whether an expression compares two values that are not literals."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.NotEq)
        and not any(isinstance(side, ast.Constant) for side in (test.left, *test.comparators))
    )
