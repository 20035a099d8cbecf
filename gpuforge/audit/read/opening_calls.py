"""Decides for each call that opens a library whether it does so by a path or by a bare name, and what a failure does.

A bare name is searched where the dynamic linker searches, so opening it brings nothing into the process that would not
be found anyway. Values are followed through variables, loops, parameters and functions of the same file.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpuforge.audit.model import OpenedByName, Uncalled
from gpuforge.audit.read.python_source import last_name, walk

_OPENERS = re.compile(r"CDLL|PyDLL|LoadLibrary|dlopen")
# functions and methods that return paths, or files of folders
_PATHS = re.compile(
    r"abspath|realpath|dirname|expanduser|resolve|absolute|joinpath|with_\w+|as_posix|[ir]?glob|\w+dir|walk|resource_filename"
    r"|files|as_file|get_path|getenv|get_python_lib|getsitepackages"
)
# of their own object
_TEXTS = frozenset({"format", "replace", "strip", "split", "keys", "values", "items", "decode"})
_PASSED_ON = frozenset(
    {"str", "fspath", "Path", "PurePath", "bytes", "encode", "sorted", "list", "tuple", "set", "iter"}
)
_CHANGING = frozenset({"append", "extend", "insert", "update", "add", "setdefault"})
_SAME_END = frozenset({"abspath", "realpath", "expanduser", "resolve", "absolute", "as_posix", "joinpath"})
_CAUGHT = frozenset({"OSError", "Exception", "BaseException", "EnvironmentError", "IOError"})
_DEEPEST = 8  # variables and functions from a call to a value
_MOST = 20_000  # expressions that are looked at in one file
# the parts of expressions that may be their values
_PARTS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.BoolOp: ("values",), ast.IfExp: ("body", "orelse"), ast.List: ("elts",), ast.Tuple: ("elts",),
    ast.Set: ("elts",), ast.Dict: ("keys", "values"), ast.NamedExpr: ("value",), ast.Starred: ("value",),
    ast.ListComp: ("elt",), ast.SetComp: ("elt",), ast.GeneratorExp: ("elt",), ast.Subscript: ("value",),
}  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class OpeningCalls(NamedTuple):
    """The calls of a file: whether one may open a path, and what is opened by bare names."""

    paths: bool  # one opens a path, or a value that is not known
    known: bool  # all of them open values that are known
    bare: frozenset[int]  # the `id` of each string that only names a library to be opened by its bare name
    by_name: tuple[OpenedByName, ...]


class _Value(NamedTuple):
    """A possible value of an expression: a path, a bare name, or unknown."""

    kind: str  # "path", "name", "unknown"
    text: str = ""  # the name, or that of the file at the end of a path
    string: int = 0  # the `id` of the constant
    exact: bool = False  # the whole text is known


_PATH, _UNKNOWN = _Value("path"), _Value("unknown")


def opening_calls(tree: ast.Module) -> OpeningCalls | None:
    """Return what the calls of a file open; None without a call, or if the file is too large to follow them."""
    file = File(tree)
    calls = [(call, values) for call in file.calls if (values := list(file.opened(call)))]
    if not calls or file.left <= 0:
        return None
    by_path = {
        id(n) for call, values in calls if any(v.kind != "name" for v in values) for n in file.strings(call)
    }
    names = {v.string for _, values in calls for v in values if v.kind == "name"}
    kinds = {v.kind for _, values in calls for v in values}
    return OpeningCalls(
        paths=kinds != {"name"},
        known="unknown" not in kinds,
        bare=frozenset(names - by_path),
        by_name=tuple(file.by_name(calls)),
    )


class File:
    """A parsed file: what its variables are assigned, and where its functions are called."""

    def __init__(self, tree: ast.Module) -> None:
        self.left = _MOST
        self.parents: dict[int, ast.AST] = {}
        self.functions: dict[str, _Function] = {}
        self.uses: dict[str, list[ast.Call]] = {}  # the last name of a function -> its calls
        self._in: dict[int, _Function | None] = {}  # the `id` of a node -> its function
        self._assigned: dict[tuple[int, str], list[ast.expr]] = {}  # the `id` of a function or 0, a variable
        self._changed = set[str]()  # variables whose values are not only those that they are assigned
        self.nodes: list[ast.AST] = []
        stack: list[tuple[ast.AST, _Function | None]] = [(tree, None)]
        while stack:
            node, function = stack.pop()
            self.nodes.append(node)
            self._in[id(node)] = function
            self._changed |= _changed_names(node)
            for target, value in _assignments(node):
                for name, part in _parts_for(target, value):
                    self._assigned.setdefault((id(function) if function else 0, name), []).append(part)
            if isinstance(node, ast.Call):
                self.uses.setdefault(_called(node), []).append(node)
            if isinstance(node, _SCOPES):
                self.functions[node.name] = node
            inside = node if isinstance(node, _SCOPES) else function
            for child in ast.iter_child_nodes(node):
                self.parents[id(child)] = node
                stack.append((child, inside))
        self.calls = [
            call
            for name, calls in self.uses.items()
            for call in calls
            if _OPENERS.fullmatch(name) and name not in self.functions
        ]

    def opened(self, call: ast.Call) -> Iterator[_Value]:
        """Yield what a call may open; nothing for the program itself and the C library."""
        argument = (
            call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "name"), None)
        )
        if argument is None or (isinstance(argument, ast.Constant) and not argument.value):
            return
        for value in self._values(argument, _DEEPEST):
            if not value.text.startswith("libc.so"):
                yield value

    def _values(self, node: ast.expr, depth: int) -> Iterator[_Value]:
        """Yield the possible values of an expression, or of the elements of a list."""
        self.left -= 1
        if depth <= 0 or self.left <= 0:
            yield _UNKNOWN
            return
        if about := _about(node):
            yield from (value._replace(exact=False) for value in self._values(about, depth - 1))
        elif _is_path(node):
            yield _PATH
        elif isinstance(node, ast.Constant):
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            yield from [_named(text, id(node))] if isinstance(text, str) else []
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from self._at_end(node.right, depth)
        elif parts := _joined_parts(node):
            yield from self._joined(parts, depth)
        elif isinstance(node, ast.Name):
            yield from self._of_variable(node, node.id, depth)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node, depth)
        elif type(node) in _PARTS:
            for part in _PARTS[type(node)]:
                inner = getattr(node, part)
                for each in filter(None, inner if isinstance(inner, list) else [inner]):
                    yield from self._values(each, depth - 1)
        else:
            yield _UNKNOWN

    def _at_end(self, node: ast.expr, depth: int) -> Iterator[_Value]:
        """Yield the paths that end with an expression."""
        yield from (value._replace(kind="path", string=0) for value in self._values(node, depth - 1))

    def _joined(self, parts: Iterable[ast.expr], depth: int) -> Iterator[_Value]:
        """Yield the values of a text made of parts: a path if one part has a slash, else as it begins."""
        first, *rest = parts
        texts = [n.value for each in (first, *rest) for n in walk(each) if isinstance(n, ast.Constant)]
        if any(isinstance(text, str) and "/" in text for text in texts):
            last = rest[-1] if rest else first
            text = last.value if isinstance(last, ast.Constant) and isinstance(last.value, str) else ""
            yield _named(text) if "/" in text else _PATH
            return
        begins = first.value if isinstance(first, ast.FormattedValue) else first
        values = list(self._values(begins, depth - 1))
        behind = "".join(
            p.value if isinstance(p, ast.Constant) and isinstance(p.value, str) else "{}" for p in rest
        )
        for value in values or [_UNKNOWN]:
            if value.kind != "name":
                yield value
            elif value.text.startswith("lib") or not re.search("[{%]", value.text + behind):
                exact = value.exact and not re.search("[{%]", behind)
                yield value._replace(text=value.text + behind, exact=exact)
            else:
                yield _UNKNOWN

    def _of_call(self, call: ast.Call, depth: int) -> Iterator[_Value]:
        name = _called(call)
        own = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name == "join":
            yield from (
                [_UNKNOWN]
                if isinstance(own, ast.Constant)
                else self._at_end(call.args[-1], depth)
                if call.args
                else [_PATH]
            )
        elif name == "find_library":
            yield _Value("name", exact=bool(call.args) and isinstance(call.args[0], ast.Constant))
        elif name in _TEXTS and own is not None:
            edited = name not in {"keys", "values", "items", "decode"}
            for value in self._values(own, depth - 1):
                yield value._replace(exact=value.exact and not edited)
        elif name in {"get", "setdefault"} and own is not None:
            for each in (own, *call.args[1:]):
                yield from self._values(each, depth - 1)
        elif _PATHS.fullmatch(name) or (name in _PASSED_ON and len(call.args) > 1):
            passed = own if name in _SAME_END and not call.args else call.args[-1] if call.args else None
            yield from self._at_end(passed, depth) if passed and name in _SAME_END | _PASSED_ON else [_PATH]
        elif name in _PASSED_ON and call.args:
            yield from self._values(call.args[0], depth - 1)
        else:
            yield from self._returned(name, depth)

    def _returned(self, name: str, depth: int) -> Iterator[_Value]:
        """Yield the values that a function of the file returns."""
        body = self.functions[name].body if name in self.functions else []
        returned = [n.value for n in walk(*body) if isinstance(n, ast.Return | ast.Yield) and n.value]
        for each in returned:
            yield from self._values(each, depth - 1)
        if not returned:
            yield _UNKNOWN

    def _of_variable(self, node: ast.AST, name: str, depth: int) -> Iterator[_Value]:
        """Yield the values of a variable: of its assignments and loops in its function, else in the module."""
        function = self._in.get(id(node))
        given = list(self._given(function, name)) if function else []
        found = (function and self._assigned.get((id(function), name))) or []
        if not (found or given):
            found = self._assigned.get((0, name), [])
        for expression in (*found, *filter(None, given)):
            for value in self._values(expression, depth - 1):
                yield value._replace(exact=value.exact and self._changed.isdisjoint((name, "*")))
        if None in given or not (found or given):
            yield _UNKNOWN

    def _given(self, function: _Function, name: str) -> Iterator[ast.expr | None]:
        """Yield what calls in the file pass for a parameter; None for what is not known."""
        parameters = [*function.args.posonlyargs, *function.args.args]
        names = [p.arg for p in parameters]
        if name not in (*names, *(p.arg for p in function.args.kwonlyargs)):
            return
        place = names.index(name) if name in names else -1
        place -= bool(names and names[0] in {"self", "cls"})
        uses = self.uses.get(function.name, [])
        for call in uses:
            by_name = next((k.value for k in call.keywords if k.arg == name), None)
            if by_name is not None:
                yield by_name
            elif 0 <= place < len(call.args):
                yield call.args[place]
        if not uses:
            yield None
        defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
        if name in defaults:
            yield defaults[name]

    def strings(self, call: ast.Call) -> Iterator[ast.AST]:
        """Yield the constants that a call's argument is made of, as far as variables lead to them."""
        queue: list[ast.AST] = [*call.args[:1], *(k.value for k in call.keywords)]
        seen: set[int] = set()
        while queue and self.left > 0:
            for node in walk(queue.pop()):
                self.left -= 1
                function = self._in.get(id(node))
                if isinstance(node, ast.Constant):
                    yield node
                elif isinstance(node, ast.Name) and (key := hash((id(function), node.id))) not in seen:
                    seen.add(key)
                    queue += self._assigned.get((id(function) if function else 0, node.id), [])
                    queue += self._assigned.get((0, node.id), [])
                    queue += filter(None, self._given(function, node.id) if function else ())
                elif isinstance(node, ast.Call) and (called := self.functions.get(_called(node))):
                    queue += [
                        n for n in walk(*called.body) if isinstance(n, ast.Return) and id(n) not in seen
                    ]
                    seen.update(map(id, queue))

    def by_name(self, calls: Iterable[tuple[ast.Call, list[_Value]]]) -> Iterator[OpenedByName]:
        """Yield the calls that open bare names, with what happens if that fails."""
        for call, values in calls:
            names = tuple(dict.fromkeys(v.text for v in values if v.kind == "name" and v.text))
            if names and all(v.kind == "name" for v in values):
                raises, imported = self._outcome(call, _DEEPEST)
                yield OpenedByName(names, raises=raises, imported=imported)

    def _outcome(self, node: ast.AST, depth: int) -> tuple[bool, bool]:
        """Return whether a failure of a call raises an error, and whether it is made when the file is imported.

        If the function of the call is called in the file, these calls decide, the worst of them.
        """
        if self._is_handled(node):
            return False, False
        function = self._in.get(id(node))
        if function is None:
            return True, True
        uses = self.uses.get(function.name, []) if depth > 0 else []
        outcomes = [self._outcome(use, depth - 1) for use in uses if self._in.get(id(use)) is not function]
        return max(outcomes, default=(True, False))

    def _is_handled(self, node: ast.AST) -> bool:
        """Return whether an error of a call is caught in its function, and not raised again."""
        child: ast.AST = node
        while (above := self.parents.get(id(child))) is not None and not isinstance(child, _SCOPES):
            if isinstance(above, ast.Try) and any(child is each for each in above.body):
                for handler in above.handlers:
                    caught = _last_names(handler.type)
                    if (not caught or caught & _CAUGHT) and not any(
                        isinstance(n, ast.Raise) for n in walk(*handler.body)
                    ):
                        return True
            if isinstance(above, ast.With | ast.AsyncWith) and any(
                _called(item.context_expr) == "suppress"
                and set().union(*map(_last_names, item.context_expr.args)) & _CAUGHT
                for item in above.items
                if isinstance(item.context_expr, ast.Call)
            ):
                return True
            child = above
        return False


def _changed_names(node: ast.AST) -> set[str]:
    """Return the variables that a statement changes otherwise than by assigning them in their own function."""
    match node:
        case (
            ast.AugAssign(target=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store())
        ):
            return {name}
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return set(names)
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {each.asname or each.name.partition(".")[0] for each in aliases}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.Lambda(args=given):
            return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        case ast.arguments(vararg=one, kwarg=other):
            return {each.arg for each in (one, other) if each}
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _CHANGING:
            return {name}
    return set()


def _about(node: ast.expr) -> ast.expr | None:
    """Return what an expression is a part of, or is unless users set an environment variable: `getenv(NAME, this)`."""
    match node:
        case ast.Subscript(value=whole, slice=ast.Slice()):
            return whole
        case ast.BoolOp(op=ast.Or(), values=[ast.Call() as call, *_, last]) if _reads_environment(call):
            return last
        case ast.Call(args=[_, default]) if _reads_environment(node):
            return default
    return None


def _reads_environment(call: ast.Call) -> bool:
    own = call.func.value if isinstance(call.func, ast.Attribute) else None
    return _called(call) == "getenv" or (_called(call) == "get" and last_name(own) == "environ")


def _is_path(node: ast.expr) -> bool:
    """Return whether an expression is a path by its form alone."""
    match node:
        case ast.Name(id="__file__" | "__path__"):
            return True
        case ast.Attribute(attr="environ" | "parent" | "parents" | "origin" | "submodule_search_locations"):
            return True
    return False


def _named(text: str, string: int = 0) -> _Value:
    """Return the value of a text: a path if it has a slash, with the name of its file."""
    name = text.rpartition("/")[2]
    return _Value("path" if "/" in text else "name", name, string, not re.search("[{%]", name))


def _joined_parts(node: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression that makes a text of several; "%" only adds to the text before it."""
    match node:
        case ast.JoinedStr(values=parts):
            return parts
        case ast.BinOp(left=left, op=ast.Mod()):
            return [left]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [left, right]
    return []


def _called(node: ast.expr) -> str:
    """Return the last name of the function that a call calls."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _last_names(node: ast.expr | None) -> set[str]:
    """Return the names of exceptions in an `except`, without their modules."""
    return {last_name(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])} - {""}


def _assignments(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of a statement or a loop with their values."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, value) for target in targets]
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.AugAssign(target=target, value=value)
            | ast.NamedExpr(target=target, value=value)
            | ast.For(target=target, iter=value)
            | ast.comprehension(target=target, iter=value)
            | ast.withitem(optional_vars=ast.expr() as target, context_expr=value)
        ):
            return [(target, value)]
    return []


def _parts_for(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that an assignment sets, each with its part of the value: `a, b = x, y` sets b to y."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        rows = value.elts if isinstance(value, ast.List | ast.Tuple) else []
        for index, each in enumerate(target.elts):
            columns = [
                row.elts[index]
                for row in rows
                if isinstance(row, ast.Tuple | ast.List) and len(row.elts) > index
            ]
            whole = rows[index] if len(rows) == len(target.elts) else value
            for part in columns or [whole]:
                if isinstance(each, ast.Name):
                    yield each.id, part


_MOST_UNCALLED = 500  # functions per file; each is followed through all the others


def uncalled(tree: ast.Module, calls: str) -> Uncalled | None:
    """Return the functions of a file that nothing in it uses, if only they lead to the calls of these names.

    None if a call is made on import, by a method, or by a function that the file uses otherwise.
    """
    functions, uses, calling = _functions(tree, calls)
    if not calling:
        return None
    outside = [node for node in tree.body if not isinstance(node, _SCOPES)]
    decorators = [each for node in functions.values() for each in node.decorator_list]
    # functions with a decorator may be called elsewhere, and Python calls __getattr__
    offered = {name for name, node in functions.items() if node.decorator_list or name.startswith("__")}
    used = _reached(offered | used_names([*outside, *decorators]) & functions.keys(), uses)
    if calling & used or _has_call(outside, calls, functions):
        return None
    leading = [name for name in functions if calling & _reached({name}, uses)]
    first = [name for name in leading if not any(name in uses[other] for other in leading if other != name)]
    nodes = [functions[name] for name in _reached(set(leading), uses) - used]
    strings = (n.value for n in walk(*nodes) if isinstance(n, ast.Constant))
    return Uncalled(tuple(first or leading), tuple(text for text in strings if isinstance(text, str)))


def imported_before(tree: ast.Module, calls: str) -> frozenset[str]:
    """Return the last names of the modules that a file imports before it makes, or leads to, a call of these names.

    None of them if the call is not made by the import of the file itself.
    """
    functions, uses, calling = _functions(tree, calls)
    if len(functions) > _MOST_UNCALLED:
        return frozenset()
    leading = {name for name in functions if calling & _reached({name}, uses)}
    found = set[str]()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.rpartition(".")[2])
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.name.rpartition(".")[2] for each in node.names}
        elif not isinstance(node, (*_SCOPES, ast.ClassDef)) and (
            used_names([node]) & leading or _has_call([node], calls, functions)
        ):
            return frozenset(found)
    return frozenset()


def _functions(tree: ast.Module, calls: str) -> tuple[dict[str, _Function], dict[str, set[str]], set[str]]:
    """Return a file's functions, those that each one uses, and those that make a call of these names.

    Nothing uses or calls anything if there are too many to follow.
    """
    functions = {node.name: node for node in tree.body if isinstance(node, _SCOPES)}
    if len(functions) > _MOST_UNCALLED:
        return functions, {}, set()
    uses = {name: used_names(node.body) & functions.keys() for name, node in functions.items()}
    return (
        functions,
        uses,
        {name for name, node in functions.items() if _has_call(node.body, calls, functions)},
    )


def used_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that code reads, also those of attributes; an import alone does not count."""
    found = set[str]()
    for node in walk(*nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def _has_call(nodes: Iterable[ast.AST], calls: str, functions: Mapping[str, object]) -> bool:
    """Return whether code calls a function of these names that is not defined in the file."""
    called = (n.func for n in walk(*nodes) if isinstance(n, ast.Call))
    return any(
        re.fullmatch(calls, name) and (isinstance(function, ast.Attribute) or name not in functions)
        for function in called
        if (name := last_name(function))
    )


def _reached(start: set[str], uses: Mapping[str, set[str]]) -> set[str]:
    """Return the functions that these ones lead to, themselves included."""
    found, left = set(start), list(start)
    while left:
        more = uses[left.pop()] - found
        found |= more
        left += more
    return found
