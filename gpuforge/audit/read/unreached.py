"""Takes out of Python code what no import runs on Linux: branches for other systems, and for variables to be set."""

import ast
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpuforge.audit.read.python_source import Source, dotted, walk

_UNKNOWN = object()
_KNOWN = {
    "sys.platform": "linux", "os.name": "posix", "platform.system()": "Linux",
    "TYPE_CHECKING": False, "typing.TYPE_CHECKING": False,
}  # fmt: skip
_TYPES: dict[str, Callable[..., object]] = {"int": int, "bool": bool, "str": str}
_METHODS = {"lower", "upper", "casefold", "strip", "startswith"}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def without(source: Source | None) -> Source | None:
    """Return a file without the code that cannot run there, in its text as in its tree."""
    if not source or not source.tree:
        return source
    known = _Known(source.tree)
    lines = source.text.splitlines(keepends=True)
    for node in list(walk(source.tree)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                of_other = isinstance(node, ast.If) and known.truth(node.test) is (name == "orelse")
                dead = block if of_other else known.behind_end(block)
                for each in dead:
                    _blank(lines, each)
                setattr(node, name, block[: len(block) - len(dead)])
    return Source(b"".join(lines), source.tree)


def _blank(lines: list[bytes], node: ast.stmt) -> None:
    """Replace the text of a statement by spaces."""
    last = node.end_lineno or node.lineno
    for number in range(node.lineno - 1, last):
        line = lines[number]
        start = node.col_offset if number == node.lineno - 1 else 0
        stop = (node.end_col_offset or 0) if number == last - 1 else len(line.rstrip(b"\r\n"))
        lines[number] = line[:start] + b" " * (stop - start) + line[stop:]


class _Known:
    """The values of expressions that are the same on every Linux whose users have set no variable."""

    def __init__(self, tree: ast.Module) -> None:
        stored = Counter(n.id for n in walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self._values: dict[str, object] = {}
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if stored[name] == 1:
                    with suppress(ValueError, TypeError, RecursionError):
                        self._values[name] = self._of(value)

    def behind_end(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a block behind one that always ends it."""
        for number, node in enumerate(block, 1):
            ends = [node]
            if isinstance(node, ast.If) and (truth := self.truth(node.test)) is not None:
                ends = (node.body if truth else node.orelse)[-1:]
            if ends and isinstance(ends[0], _ENDS):
                return block[number:]
        return []

    def truth(self, test: ast.expr) -> bool | None:
        """Return whether a condition holds; None if that is not known."""
        try:
            return self._truth(test)
        except (ValueError, TypeError, RecursionError):  # what the code would raise, or a deep expression
            return None

    def _truth(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.BoolOp):
            values = [self._truth(each) for each in test.values]
            decides = isinstance(test.op, ast.Or)
            return decides if decides in values else None if None in values else not decides
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            value = self._truth(test.operand)
            return None if value is None else not value
        found = self._of(test)
        return None if found is _UNKNOWN else bool(found)

    def _of(self, node: ast.expr) -> object:
        """Return the value of an expression, or `_UNKNOWN`."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = [self._of(each) for each in node.elts]
            return _UNKNOWN if _UNKNOWN in values else tuple(values)
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return self._of_name(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compared(node.left, node.ops[0], node.comparators[0])
        if isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return _UNKNOWN if (truth := self._truth(node)) is None else truth
        return _UNKNOWN

    def _of_name(self, node: ast.Name | ast.Attribute | ast.Call) -> object:
        name = _dotted(node)
        if isinstance(node, ast.Name) and name in self._values:
            return self._values[name]
        if name in _KNOWN:
            return _KNOWN[name]
        if not isinstance(node, ast.Call):
            return _UNKNOWN
        arguments = [self._of(each) for each in node.args]
        function = _dotted(node.func)
        if function in {"os.environ.get", "os.getenv", "environ.get", "getenv"}:
            return arguments[1] if len(arguments) > 1 else None
        if _UNKNOWN in arguments or node.keywords:
            return _UNKNOWN
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            own = self._of(node.func.value)
            return getattr(own, node.func.attr)(*arguments) if isinstance(own, str) else _UNKNOWN
        return _TYPES[function](*arguments) if function in _TYPES else _UNKNOWN

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> object:
        if _dotted(right) in {"os.environ", "environ"} and isinstance(operator, ast.In | ast.NotIn):
            return isinstance(operator, ast.NotIn)
        if _dotted(left) == "__name__" and isinstance(operator, ast.Eq):
            return False if self._of(right) == "__main__" else _UNKNOWN
        values = self._of(left), self._of(right)
        compare = _COMPARED.get(type(operator))
        return compare(*values) if compare and _UNKNOWN not in values else _UNKNOWN


def _dotted(node: ast.expr) -> str:
    """Return the name of an expression that is one, "sys.platform", also of a call without arguments; else ""."""
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        return (name := dotted(node.func)) and f"{name}()"
    return dotted(node)
