"""Finds the texts that expressions of a Python script can be, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice, product

Texts = tuple[str | None, ...]  # possible texts; None is one that only a run knows

_MOST = 60  # texts of one expression
_DEEPEST = 12  # expressions in each other
_COPIES = {"sorted", "list", "tuple", "set", "dict.fromkeys", "glob", "str", "abspath", "join"}


class ScriptTexts:
    """The assignments, loops and calls of a script, by the names that they give values to."""

    def __init__(self, module: ast.Module) -> None:
        """Collect them."""
        self._values: dict[str, list[ast.expr]] = {}
        self._items: dict[str, list[ast.expr]] = {}  # of loops
        functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(module):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value:
                self._assign(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
                self._items.setdefault(node.target.id, []).append(node.iter)
            elif isinstance(node, ast.Call):
                self._called(node, functions)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append(value)

    def _called(self, call: ast.Call, functions: dict[str, ast.FunctionDef]) -> None:
        name = last_name(call.func)
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name in {"append", "extend"} and isinstance(owner, ast.Name) and call.args:
            value = ast.List([call.args[0]]) if name == "append" else call.args[0]
            self._values.setdefault(owner.id, []).append(value)
        if name in functions:
            parameters = [each.arg for each in functions[name].args.args if each.arg != "self"]
            given = [*zip(parameters, call.args, strict=False)]
            given += [(word.arg, word.value) for word in call.keywords if word.arg]
            for parameter, value in given:
                self._values.setdefault(parameter, []).append(value)

    def assigned(self, name: str) -> list[ast.expr]:
        """Return the expressions that a name is set to."""
        return self._values.get(name, [])

    def of(self, node: ast.expr, depth: int = 0) -> Texts:
        """Return the texts that an expression can be."""
        if depth > _DEEPEST:
            return (None,)
        match node:
            case ast.Constant(value=str() | int() as value):
                return (str(value),)
            case ast.JoinedStr(values=parts):
                return _joined(self.of(part, depth + 1) for part in parts)
            case ast.FormattedValue(value=value):
                return self.of(value, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _joined(self.of(part, depth + 1) for part in (left, right))
            case ast.BinOp(left=ast.Constant(value=str() as form), op=ast.Mod(), right=right):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                return self._filled(form.replace("%d", "%s").split("%s"), values, depth)
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str() as form), attr="format"), args=values
            ):
                return self._filled(form.split("{}"), values, depth)
            case ast.IfExp(body=body, orelse=other):
                return _limited((*self.of(body, depth + 1), *self.of(other, depth + 1)))
            case ast.Name(id=name) if name in self._values or name in self._items:
                texts = [text for each in self.assigned(name) for text in self.of(each, depth + 1)]
                items = [text for each in self._items.get(name, []) for text in self.items(each, depth + 1)]
                return _limited((*texts, *items))
        return (None,)

    def items(self, node: ast.expr, depth: int = 0) -> Texts:
        """Return the texts in an expression that is a list."""
        if depth > _DEEPEST:
            return (None,)
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return _limited(text for part in parts for text in self.of(part, depth + 1))
            case ast.Starred(value=value):
                return self.items(value, depth + 1)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                return self.of(element, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _limited((*self.items(left, depth + 1), *self.items(right, depth + 1)))
            case ast.IfExp(body=body, orelse=other):
                return _limited((*self.items(body, depth + 1), *self.items(other, depth + 1)))
            case ast.Call(
                func=ast.Attribute(value=value, attr="split"), args=[ast.Constant(value=str() as sign)]
            ):
                texts = self.of(value, depth + 1)
                return _limited(
                    part for text in texts for part in ([None] if text is None else text.split(sign))
                )
            case ast.Call(func=function, args=[*_, last]) if last_name(function) in _COPIES:
                return self.items(last, depth + 1)
            case ast.Name(id=name) if self.assigned(name):
                return _limited(text for each in self.assigned(name) for text in self.items(each, depth + 1))
        return self.of(node, depth + 1)

    def _filled(self, pieces: list[str], values: list[ast.expr], depth: int) -> Texts:
        if len(pieces) != len(values) + 1:
            return (None,)
        parts: list[Texts] = [(pieces[0],)]
        for value, piece in zip(values, pieces[1:], strict=True):
            parts += [self.of(value, depth + 1), (piece,)]
        return _joined(parts)


def last_name(node: ast.expr) -> str:
    """Return "environ" of `os.environ` and of `environ`; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _joined(parts: Iterable[Texts]) -> Texts:
    def texts() -> Iterator[str | None]:
        for combination in product(*parts):
            known = [text for text in combination if text is not None]
            yield "".join(known) if len(known) == len(combination) else None

    return _limited(texts())


def _limited(texts: Iterable[str | None]) -> Texts:
    return tuple(dict.fromkeys(islice(texts, _MOST)))
