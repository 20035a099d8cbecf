"""Reads `setup.py` as a syntax tree: imports, extensions, libraries, architectures and environment variables."""

from __future__ import annotations

import ast
import posixpath
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import count, islice, product
from string import Formatter

from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.sources import has_kernel
from gpuforge.runtime.arch import Arch

NAME = "setup.py"
_LARGEST = 300_000  # characters; setuptools' own has 3,000
_GENCODE = r"arch=(\w+),code=\[?([\w,]+)\]?"
_SHORT = r"--?(?:gpu-architecture|arch)=sm_(\w+)"  # also of PTX, if `-code` does not stand beside it
_FLAG = r"gencode|-generate-code|,code=|-arch=|-gpu-architecture"
_RUNS = {"run", "call", "check_call", "check_output", "Popen", "spawn"}
_DOWNLOADS = ("urllib", "requests", "urllib3", "httpx")
_ASKS_FOR_GPU = ("is_available", "cuda")
_HELPS = r"build|setup|cmake|tool|helper|compil|cuda|ext"
_WORDS = ("extras_require", "keywords", "entry_points")  # whose texts are about users, not about the build
_METADATA = ("name", "version", "python_requires", "classifiers", "install_requires")
_VARIABLE = r"[A-Z][A-Z0-9_]{2,60}"
_LONGEST_VALUE = 40  # characters that a variable is compared with
_MOST_TEXTS = 60  # of one expression
_DEEPEST = 12  # expressions in each other
_ANY_FOLDER = "*?"  # a part of a path that only a run knows
_COPIES = {"sorted", "list", "tuple", "set", "dict.fromkeys", "glob", "str", "abspath"}

Texts = tuple[str | None, ...]  # possible texts; None is one that only a run knows


@dataclass(frozen=True, slots=True)
class Import:
    """A module that setup.py imports; `optional` if it handles its absence.

    `names` are what it imports from there, "distutils.core" and "distutils.core.setup".
    """

    module: str
    where: Where
    optional: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gencode:
    """A GPU architecture that setup.py passes to nvcc, if CUDA has at least the version `at_least`."""

    text: str
    where: Where
    at_least: str
    arch: Arch
    real: tuple[Arch, ...]  # of machine code
    ptx: tuple[Arch, ...]
    always: bool  # not made from values, which may be for some versions of CUDA alone


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable that a script reads, the text that it is compared with, and its default."""

    variable: str
    value: str  # "" if it is not compared with a text
    default: str
    where: Where


@dataclass(slots=True)
class Script:
    """The content of a setup.py, and of the project's modules that help it; empty if there is none."""

    arguments: dict[str, tuple[Seen, ...]] = field(default_factory=dict)  # literals of `setup(...)`
    imports: list[Import] = field(default_factory=list)  # of other packages
    downloads: list[Seen] = field(default_factory=list)  # modules for HTTP
    names: dict[str, Where] = field(default_factory=dict)  # all, also of attributes: the first use
    libraries: list[Seen] = field(default_factory=list)
    gencodes: list[Gencode] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    gpu_extensions: list[Seen] = field(default_factory=list)  # the modules of those with CUDA sources
    computed_extensions: Where | None = None  # one whose name only a run knows
    # CUDA sources of extensions that are not among the files
    absent: list[Seen] = field(default_factory=list)
    asks_for_gpu: Where | None = None  # torch.cuda.is_available()
    asks_otherwise: bool = False  # by another name than that
    ends_without_gpu: bool = False  # also in the hook that runs before [build] before
    computed_archs: Where | None = None  # flags for architectures that only a run knows
    own_archs: list[Seen] = field(default_factory=list)  # environment variables that make them
    limited_api: Where | None = None
    no_ninja: bool = False
    texts: list[Seen] = field(default_factory=list)  # all short ones


def read(files: Files, backend: Iterable[str] = ()) -> Script:
    """Parse setup.py, the modules that help it, and those of the project's own build `backend`.

    Nothing is noted of a file that Python cannot parse.
    """
    script = Script()
    main = _reader(files, NAME, script)
    readers = [main] if main else []
    others = dict.fromkeys((*(main.helpers() if main else ()), *backend))
    readers += filter(None, (_reader(files, name, script) for name in others))
    for reader in readers:
        reader.note()
    return script


def _reader(files: Files, name: str, script: Script) -> _Reader | None:
    text = files.text(name)
    if not text or len(text) > _LARGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its escapes and comparisons
            return _Reader(ast.parse(text), files, name, script)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class ScriptTexts:
    """The assignments, loops and calls of a script, by the names that they give values to."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        """Collect them."""
        self.values: dict[str, list[ast.expr]] = {}
        self._items: dict[str, list[ast.expr]] = {}  # of loops
        # a script of many functions names the same often
        self._known: dict[tuple[str, int, bool], Texts] = {}
        functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value:
                self._assign(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
                self._items.setdefault(node.target.id, []).append(node.iter)
            elif isinstance(node, ast.Call):
                name = last_name(node.func)
                if name in {"append", "extend"} and isinstance(node.func, ast.Attribute) and node.args:
                    value = ast.List([node.args[0]]) if name == "append" else node.args[0]
                    self._assign(node.func.value, value)
                if name in functions:
                    parameters = [each.arg for each in functions[name].args.args if each.arg != "self"]
                    given = [*zip(parameters, node.args, strict=False)]
                    given += [(word.arg, word.value) for word in node.keywords if word.arg]
                    for parameter, argument in given:
                        self.values.setdefault(parameter, []).append(argument)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault(target.id, []).append(value)

    def sources(self, name: str) -> list[ast.expr]:
        """Return what a name is given in assignments, calls and loops."""
        return [*self.values.get(name, ()), *self._items.get(name, ())]

    def bound(self, function: ast.FunctionDef, call: ast.Call) -> ScriptTexts:
        """Return these within a function, as one call of it gives values to its parameters."""
        names, defaults = [each.arg for each in function.args.args], function.args.defaults
        given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        given |= dict(zip(names, call.args, strict=False))
        given |= {word.arg: word.value for word in call.keywords if word.arg in names}
        within = copy(self)
        within.values = self.values | {name: self._beyond(value) for name, value in given.items()}
        within._known = {}
        return within

    def _beyond(self, node: ast.expr) -> list[ast.expr]:
        """Return an argument; of one that is a variable, which may have the parameter's name, what it can be."""
        if not isinstance(node, ast.Name):
            return [node]
        values = self.values.get(node.id, [])
        return [each for each in values if not isinstance(each, ast.Name) or each.id != node.id] or [node]

    def of(self, node: ast.expr, depth: int = 0) -> Texts:
        """Return the texts that an expression can be."""
        if depth > _DEEPEST:
            return (None,)
        match node:
            case ast.Constant(value=str() | int() | None as value):
                return () if value is None else (str(value),)  # None is a default
            case ast.JoinedStr(values=parts):
                return _joined(self.of(part, depth + 1) for part in parts)
            case ast.FormattedValue(value=value):
                return self.of(value, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _joined(self.of(part, depth + 1) for part in (left, right))
            case ast.BinOp(left=ast.Constant(value=str() as form), op=ast.Mod(), right=right):
                values = right.elts if isinstance(right, ast.Tuple) else [right]
                form = re.sub("%[ds]", "{}", form.replace("{", "{{").replace("}", "}}"))
                return self._formatted(form, values, depth)
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str() as form), attr="format"), args=values
            ):
                return self._formatted(form, values, depth)
            case ast.Call(func=function, args=[_, _, *_] as parts) if last_name(function) == "join":
                texts = [
                    tuple(_ANY_FOLDER if text is None else text for text in self.of(part, depth + 1))
                    for part in parts
                ]
                return _joined([texts[0], *(each for text in texts[1:] for each in (("/",), text))])
            case ast.IfExp(body=body, orelse=other):
                return _few((*self.of(body, depth + 1), *self.of(other, depth + 1)))
            case ast.Subscript(
                value=ast.Name() as value, slice=ast.UnaryOp(ast.USub(), ast.Constant(value=1))
            ):
                return self.items(value, depth + 1)[-1:]
            case ast.Name(id=name) if name in self.values or name in self._items:
                return self._named(name, depth + 1)
        return (None,)

    def items(self, node: ast.expr, depth: int = 0) -> Texts:
        """Return the texts in an expression that is a list."""
        if depth > _DEEPEST:
            return (None,)
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return _few(text for part in parts for text in self.of(part, depth + 1))
            case ast.Starred(value=value):
                return self.items(value, depth + 1)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                return self.of(element, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _few((*self.items(left, depth + 1), *self.items(right, depth + 1)))
            case ast.IfExp(body=body, orelse=other):
                return _few((*self.items(body, depth + 1), *self.items(other, depth + 1)))
            case ast.Call(
                func=ast.Attribute(value=value, attr="split"), args=[ast.Constant(value=str() as sign)]
            ):
                texts = self.of(value, depth + 1)
                return _few(part for text in texts for part in ([None] if text is None else text.split(sign)))
            case ast.Call(func=function, args=[*_, last]) if last_name(function) in _COPIES:
                return self.items(last, depth + 1)
            case ast.Name(id=name) if name in self.values:
                return self._named(name, depth + 1, is_list=True)
        return self.of(node, depth + 1)

    def _named(self, name: str, depth: int, *, is_list: bool = False) -> Texts:
        key = (name, depth, is_list)
        if key not in self._known:
            read = self.items if is_list else self.of
            texts = [text for each in self.values.get(name, ()) for text in read(each, depth)]
            of_loops = () if is_list else self._items.get(name, ())
            self._known[key] = _few(
                (*texts, *(text for each in of_loops for text in self.items(each, depth)))
            )
        return self._known[key]

    def _formatted(self, form: str, values: list[ast.expr], depth: int) -> Texts:
        """Return the texts of `form.format(…)`; a value that is there twice is the same in both places."""
        try:
            pieces = [(text, name) for text, name, *_ in Formatter().parse(form)]
        except ValueError:
            return (None,)
        automatic = count()
        fields = [None if name is None else name or str(next(automatic)) for _, name in pieces]
        names = dict.fromkeys(name for name in fields if name is not None)
        if any(not name.isdecimal() or int(name) >= len(values) for name in names):
            return (None,)

        def texts() -> Iterator[str | None]:
            for chosen in product(*(self.of(values[int(name)], depth + 1) for name in names)):
                known = dict(zip(names, chosen, strict=True))
                parts = [
                    (text, known[name] if name else "")
                    for (text, _), name in zip(pieces, fields, strict=True)
                ]
                yield (
                    None if any(value is None for _, value in parts) else "".join(f"{a}{b}" for a, b in parts)
                )

        return _few(texts())


def _joined(parts: Iterable[Texts]) -> Texts:
    def texts() -> Iterator[str | None]:
        for combination in product(*parts):
            known = [text for text in combination if text is not None]
            yield "".join(known) if len(known) == len(combination) else None

    return _few(texts())


def _few(texts: Iterable[str | None]) -> Texts:
    different = dict.fromkeys(islice(texts, 10 * _MOST_TEXTS))
    return tuple(islice(different, _MOST_TEXTS))


def _may_end(node: ast.If | ast.Assert) -> bool:
    """Return whether a statement may end the script: an assertion, or a branch that raises or exits."""
    if isinstance(node, ast.Assert):
        return True
    ends = (each.value if isinstance(each, ast.Expr) else each for each in (*node.body, *node.orelse))
    return any(
        isinstance(each, ast.Raise)
        or (isinstance(each, ast.Call) and last_name(each.func) in {"exit", "quit", "_exit"})
        for each in ends
    )


class _Reader:
    """Reads one file."""

    def __init__(self, module: ast.Module, files: Files, file: str, script: Script) -> None:
        self.module, self.files, self.file, self.script = module, files, file, script
        self.nodes = list(ast.walk(module))
        self.texts = ScriptTexts(self.nodes)
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        self.keywords = [(call, word) for call in self.calls for word in call.keywords if word.arg]

    def note(self) -> None:
        """Add what the file says to the script."""
        script, is_main = self.script, self.file == NAME
        words = [word.value for _, word in self.keywords if word.arg in _WORDS]
        script.texts += [each for each in self.constants(without=words) if len(each.text) < 500]
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute):
                script.names.setdefault(last_name(node), self.at(node))
                if isinstance(node, ast.Attribute) and (node.attr, last_name(node.value)) == _ASKS_FOR_GPU:
                    script.asks_for_gpu = script.asks_for_gpu or self.at(node)
                    script.asks_otherwise |= ast.unparse(node) != "torch.cuda.is_available"
            elif isinstance(node, ast.If | ast.Assert) and _may_end(node):
                tested = {last_name(each) for each in ast.walk(node.test) if isinstance(each, ast.Attribute)}
                script.ends_without_gpu |= _ASKS_FOR_GPU[0] in tested
        for call, word in self.keywords:
            value = word.value.value if isinstance(word.value, ast.Constant) else None
            if is_main and word.arg in _METADATA and last_name(call.func) == "setup":
                script.arguments[word.arg] = tuple(self.literals(word.value))
            elif is_main and word.arg == "py_limited_api" and value is True:
                script.limited_api = script.limited_api or self.at(word.value)
            elif word.arg == "use_ninja" and value is False:
                script.no_ninja = True
        imports = list(self.imports())
        brought = sys.stdlib_module_names - {"distutils"}  # which today's Pythons do not have
        script.imports += [each for each in imports if each.module not in brought]
        script.downloads += [Seen(each.module, each.where) for each in imports if each.module in _DOWNLOADS]
        script.libraries += self.libraries()
        script.gencodes += self.gencodes()
        script.switches += self.switches()
        script.gpu_extensions += self.gpu_extensions()

    def at(self, node: ast.AST) -> Where:
        return Where(self.file, getattr(node, "lineno", 0))

    def literals(self, node: ast.expr) -> Iterator[Seen]:
        """Yield the texts in a value, which may be a text or a list."""
        is_list = isinstance(node, ast.List | ast.Tuple)
        for text in self.texts.items(node) if is_list else self.texts.of(node):
            if text is not None:
                yield Seen(text, self.at(node))

    def imports(self) -> Iterator[Import]:
        """Yield the imported modules, also of functions, as most of them run in a build; not the project's own."""
        guards = (ast.Try,) if self.file == NAME else (ast.Try, ast.FunctionDef)  # which it may never call
        guarded = {
            id(inner)
            for node in self.nodes
            if isinstance(node, guards)
            for body in node.body
            for inner in ast.walk(body)
        }
        own = {name.partition("/")[0].removesuffix(".py") for name in self.files.names}
        for node, name in self.imported():
            if (top := name.partition(".")[0]) not in own:
                members = [f"{name}.{each.name}" for each in getattr(node, "names", ())]
                yield Import(top, self.at(node), id(node) in guarded, (name, *members))

    def imported(self) -> Iterator[tuple[ast.AST, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node, node.module

    def helpers(self) -> list[str]:
        """Return the project's modules that help setup.py; not those of the package that is built.

        They lie beside it, or in a folder that it names; of a package in such a folder, they are all modules.
        """
        named = {seen.text.rpartition("/")[2] for seen in self.constants(without=())}
        found: list[str] = []
        for _, name in self.imported():
            path, top = name.replace(".", "/"), name.partition(".")[0]
            files = (f"{path}.py", f"{path}/__init__.py")
            found += [
                file
                for file in files
                if file in self.files.names and ("/" not in file or re.search(_HELPS, path))
            ]
            for folder in sorted({*self.files.modules.get(top, ())} - {""}):
                if folder.rpartition("/")[2] in named:
                    own = rf"{re.escape(f'{folder}/{top}')}(/[^/]+)?\.py"
                    found += sorted(file for file in self.files.names if re.fullmatch(own, file))
        return found

    def libraries(self) -> Iterator[Seen]:
        """Yield the libraries that extensions are linked with: `libraries=[...]`, `-lname`."""
        for _, word in self.keywords:
            if word.arg == "libraries" and isinstance(word.value, ast.List | ast.Tuple):
                for each in word.value.elts:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield Seen(each.value, self.at(word.value))
        programs = [call.args[0] for call in self.calls if call.args and last_name(call.func) in _RUNS]
        for seen in self.constants(without=programs):  # no option of `ls -la`
            if match := re.fullmatch(r"-l((?!ineinfo|inux)[A-Za-z]\w*)", seen.text):
                yield Seen(match[1], seen.where)

    def constants(self, *, without: Iterable[ast.expr]) -> Iterator[Seen]:
        """Yield all constant texts but those in some expressions."""
        left_out = {id(inner) for node in without for inner in ast.walk(node)}
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
                yield Seen(node.value, self.at(node))

    def gpu_extensions(self) -> Iterator[Seen]:
        """Yield the modules of extensions whose CUDA sources have kernels, or are not here to be read."""
        for call in self.calls:
            words = {word.arg: word.value for word in call.keywords}
            name = words.get("name", call.args[0] if call.args else None)
            sources = words.get("sources", call.args[1] if len(call.args) > 1 else None)
            made = last_name(call.func) == "Extension" or self.of_torch(call.func)
            if None in words and self.of_torch(call.func):  # CUDAExtension(**settings)
                self.script.computed_extensions = self.script.computed_extensions or self.at(call)
            for texts in self.within(call) if made and name is not None else ():
                found = texts.items(sources) if sources is not None else (None,)
                if name is None or not self.is_cuda(call.func, found):
                    continue
                absent, code = list(self.absent(call, found)), self.matching(found, ".cu")
                self.script.absent += absent
                if code and not absent and not any(has_kernel(self.files, each) for each in code):
                    continue  # they call CUDA alone
                for text in self.modules(texts.of(name), found):
                    if text is not None:
                        yield Seen(text, self.at(call))
                    elif self.script.computed_extensions is None:
                        self.script.computed_extensions = self.at(call)

    def modules(self, names: Texts, sources: Texts) -> Texts:
        """Return an extension's modules: of "demo.*" Cython makes one of each .pyx file, named by its packages."""
        paths = self.matching(sources, ".pyx") if any(text and text.endswith(".*") for text in names) else []
        return tuple(map(self.module_of, paths)) or names

    def module_of(self, path: str) -> str:
        """Return the name of the module that Cython makes of a file; src/demo/a.pyx is demo.a if src is no package."""
        parts = path.removesuffix(".pyx").split("/")
        folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        ends = (".py", ".pyx", ".pxd")
        top = 0
        for depth, folder in enumerate(folders, 1):
            if not any(f"{folder}/__init__{end}" in self.files.names for end in ends):
                top = depth
        return ".".join(parts[top:])

    def matching(self, sources: Texts, suffix: str) -> list[str]:
        """Return the project's files with a suffix that sources or patterns name, without what only a run knows."""
        named = [posixpath.normpath(text) for text in sources if text and text.endswith(suffix)]
        patterns = [text for text in named if _ANY_FOLDER not in text]
        return [
            each
            for each in sorted(self.files.names)
            if each.endswith(suffix) and any(fnmatch(each, text) for text in patterns)
        ]

    def within(self, call: ast.Call) -> Iterator[ScriptTexts]:
        """Yield the texts at a place: once for each call of the function that it is in."""
        functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef)]
        around = [node for node in functions if any(inner is call for inner in ast.walk(node))]
        sites = [site for site in self.calls if around and last_name(site.func) == around[-1].name]
        yield from (self.texts.bound(around[-1], site) for site in sites[:_MOST_TEXTS])
        if not sites:
            yield self.texts

    def absent(self, call: ast.Call, sources: Texts) -> Iterator[Seen]:
        """Yield the CUDA sources, written as they are, that the project does not have: many sdists lack theirs."""
        names = {posixpath.basename(name) for name in self.files.names}
        for text in filter(None, sources):
            name = posixpath.basename(text)
            if name.endswith(".cu") and not re.search(r"[*?\[]", name) and name not in names:
                yield Seen(text.removeprefix(f"{_ANY_FOLDER}/"), self.at(call))

    def is_cuda(self, function: ast.expr, sources: Texts) -> bool:
        """Return whether a call makes an extension with CUDA sources; those that only a run knows count for torch."""
        of_torch = self.of_torch(function)
        return any(
            of_torch if text is None or text.endswith(_ANY_FOLDER) else self.is_source(text, sure=of_torch)
            for text in sources
        )

    def is_source(self, text: str, *, sure: bool) -> bool:
        """Return whether sources are CUDA's; `sure` if a pattern is, whatever files the project has."""
        pattern = posixpath.normpath(text)
        if sure or not text.endswith(".cu") or "*" not in pattern:
            return text.endswith(".cu")
        if _ANY_FOLDER in pattern and "*" in posixpath.basename(pattern):
            return False
        return any(
            fnmatch(each, pattern) or fnmatch(f"./{each}", pattern) for each in self.files.ending(".cu")
        )

    def of_torch(self, function: ast.expr) -> bool:
        name = last_name(function)
        alias = [node for value in self.texts.values.get(name, ()) for node in ast.walk(value)]
        return name == "CUDAExtension" or any(
            isinstance(node, ast.Name | ast.Attribute) and last_name(node) == "CUDAExtension"
            for node in alias
        )

    def gencodes(self) -> Iterator[Gencode]:
        """Yield nvcc's architectures, with the CUDA version that an `if` around them requires."""
        pending: list[tuple[ast.AST, str]] = [(self.module, "")]
        while pending:
            node, version = pending.pop()
            if isinstance(node, ast.expr) and (found := self.flags(node)):
                for text in found:
                    yield from self.gencode(text, node, version)
            elif isinstance(node, ast.If):
                required = _least_version(node.test) or version
                pending += [(each, version) for each in node.orelse]
                pending += [(each, required) for each in node.body]
            else:
                pending += [(each, version) for each in ast.iter_child_nodes(node)]

    def flags(self, node: ast.expr) -> Texts:
        """Return the texts of an expression that makes nvcc's flags for architectures."""
        if isinstance(node, ast.Constant):
            return (node.value,) if isinstance(node.value, str) and "arch=" in node.value else ()
        makes = (
            isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.BinOp) and not _adds_lists(node))
            or (isinstance(node, ast.Call) and last_name(node.func) == "format")
        )
        words = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)] if makes else []
        return self.texts.of(node) if any(re.search(_FLAG, str(word)) for word in words) else ()

    def gencode(self, text: str | None, node: ast.expr, at_least: str) -> Iterator[Gencode]:
        """Yield the architectures in `arch=…,code=…` for nvcc, if there are any."""
        if text is None:
            self.script.own_archs += self.variables(node)
            self.script.computed_archs = self.script.computed_archs or self.at(node)
        always = isinstance(node, ast.Constant)
        if (short := re.fullmatch(_SHORT, text or "")) and (arch := _parsed(short[1])):
            yield Gencode(short[0], self.at(node), at_least, arch, (arch,), (arch,), always)
        for match in re.finditer(_GENCODE, text or ""):
            with suppress(ValueError):
                arch = Arch.parse(match[1])
                codes = match[2].split(",")
                known = [code for code in map(_parsed, codes) if code]
                if not always and known[:1] != [arch]:
                    continue  # a combination of two loops' values
                real = tuple(code for code in known if code.sm in codes)
                ptx = tuple(code for code in known if code.compute in codes)
                yield Gencode(match[0], self.at(node), at_least, arch, real, ptx, always)

    def variables(self, node: ast.expr) -> Iterator[Seen]:
        """Yield the environment variables that a text is made from; arguments of most functions are not followed."""
        pending: list[ast.AST] = [node]
        names: set[str] = set()
        while pending:
            each = pending.pop()
            yield from (Seen(name, self.at(each)) for name, _ in _reads(each))
            if isinstance(each, ast.Name):
                pending += self.texts.sources(each.id) if each.id not in names else ()
                names.add(each.id)
            elif isinstance(each, ast.Call) and last_name(each.func) not in {
                *_COPIES,
                "format",
                "join",
                "map",
            }:
                pending.append(each.func)
            else:
                pending += ast.iter_child_nodes(each)

    def switches(self) -> Iterator[Switch]:
        """Yield the environment variables that are read, once for each text that they are compared with."""
        compared = self.comparisons()
        seen: set[tuple[str, str]] = set()
        for node in self.nodes:
            for name, default in _reads(node):
                for value, line in compared.get(name) or [("", self.at(node).line)]:
                    if (name, value) not in seen and len(value) <= _LONGEST_VALUE:
                        seen.add((name, value))
                        yield Switch(name, value, default, Where(self.file, line))

    def comparisons(self) -> dict[str, list[tuple[str, int]]]:
        """Return the texts, with their lines, that environment variables are compared with."""
        holders = {  # `v` after `v = os.environ["BACKEND"]`
            node.targets[0].id: name
            for node in self.nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            for inner in ast.walk(node.value)
            for name, _ in _reads(inner)
        }
        compared: dict[str, list[tuple[str, int]]] = {}
        for node in self.nodes:
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            inner = [each for side in sides for each in ast.walk(side)]
            names = {holders[each.id] for each in inner if isinstance(each, ast.Name) and each.id in holders}
            for name in names | {name for each in inner for name, _ in _reads(each)}:
                texts = [side.value for side in sides if isinstance(side, ast.Constant)]
                line = self.at(node).line
                compared.setdefault(name, []).extend(
                    (text, line) for text in texts if isinstance(text, str) and text != name
                )
        return compared


def _reads(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the environment variable that an expression reads, and its default."""
    name: object = None
    default: object = ""
    if isinstance(node, ast.Call):
        last = last_name(node.func)
        of_environment = last_name(getattr(node.func, "value", node.func)) == "environ"
        if node.args and (last == "getenv" or (last in {"get", "pop"} and of_environment)):
            values = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
            name, default = values[0], values[1] if len(values) > 1 else ""
    elif isinstance(node, ast.Subscript) and last_name(node.value) == "environ":
        name = getattr(node.slice, "value", None)
    if isinstance(name, str) and re.fullmatch(_VARIABLE, name):
        yield name, default if isinstance(default, str) else ""


def _adds_lists(node: ast.expr) -> bool:
    """Return whether an expression is `[…] + more`: its parts are read one by one."""
    match node:
        case ast.List() | ast.ListComp():
            return True
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _adds_lists(left) or _adds_lists(right)
    return False


def last_name(node: ast.expr) -> str:
    """Return "environ" of `os.environ` and of `environ`; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _parsed(text: str) -> Arch | None:
    try:
        return Arch.parse(text)
    except ValueError:
        return None


def _least_version(test: ast.AST) -> str:
    """Return the version in `cuda_version >= Version("11.8")`; "" for any other test."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.GtE | ast.Gt):
            for text in (each.value for each in ast.walk(node) if isinstance(each, ast.Constant)):
                if isinstance(text, str) and re.fullmatch(r"\d{1,4}\.\d{1,4}(\.\d{1,4})?", text):
                    return text
    return ""
