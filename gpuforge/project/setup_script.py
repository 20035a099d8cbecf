"""Reads `setup.py` as a syntax tree: imports, extensions, libraries, architectures and environment variables."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuforge.cuda.arch import Arch
from gpuforge.project.build_variables import Switch, switches
from gpuforge.project.files import Files, Seen, Where

NAME = "setup.py"
_LARGEST = 300_000  # characters; setuptools' own has 3,000
_GENCODE = r"arch=(\w+),code=\[?([\w,]+)\]?"
_DOWNLOADS = ("urllib", "requests", "urllib3", "httpx")
_METADATA = ("name", "version", "python_requires", "classifiers")


@dataclass(frozen=True, slots=True)
class Import:
    """A module that setup.py imports; `optional` if it handles its absence."""

    module: str
    where: Where
    optional: bool


@dataclass(frozen=True, slots=True)
class Gencode:
    """A GPU architecture that setup.py passes to nvcc, if CUDA has at least the version `at_least`."""

    text: str
    where: Where
    at_least: str
    arch: Arch
    real: tuple[Arch, ...]  # of machine code
    ptx: tuple[Arch, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """The content of a setup.py, if there is one."""

    exists: bool = False
    arguments: Mapping[str, tuple[Seen, ...]] = field(default_factory=dict)  # literals of `setup(...)`
    imports: tuple[Import, ...] = ()  # of other packages
    downloads: tuple[Seen, ...] = ()  # modules for HTTP
    names: Mapping[str, Where] = field(default_factory=dict)  # all names, also of attributes: the first use
    libraries: tuple[Seen, ...] = ()
    gencodes: tuple[Gencode, ...] = ()
    switches: tuple[Switch, ...] = ()
    gpu_extensions: tuple[Seen, ...] = ()  # the modules of torch's CUDA extensions
    limited_api: Where | None = None
    no_ninja: bool = False
    texts: tuple[Seen, ...] = ()  # all short texts


def read(files: Files) -> Script:
    """Parse setup.py; the result is empty if Python cannot parse it."""
    text = files.text(NAME)
    if not text or len(text) > _LARGEST:
        return Script(exists=bool(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its escapes and comparisons
            module = ast.parse(text)
        return _facts(module, files)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Script(exists=True)


def _facts(module: ast.Module, files: Files) -> Script:
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    constants = _assigned(module)
    names: dict[str, Where] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Name | ast.Attribute):
            names.setdefault(node.id if isinstance(node, ast.Name) else node.attr, _at(node))
    imports = list(_imports(module, files))
    keywords = [(call, word) for call in calls for word in call.keywords if word.arg]
    return Script(
        exists=True,
        arguments={
            word.arg or "": tuple(Seen(text, _at(word.value)) for text in _literals(word.value, constants))
            for call, word in keywords
            if called(call) == "setup" and word.arg in _METADATA
        },
        imports=tuple(each for each in imports if each.module not in sys.stdlib_module_names),
        downloads=tuple(Seen(each.module, each.where) for each in imports if each.module in _DOWNLOADS),
        names=names,
        libraries=tuple(_libraries(module, keywords)),
        gencodes=tuple(_gencodes(module)),
        switches=tuple(switches(module, NAME)),
        gpu_extensions=tuple(_gpu_extensions(calls)),
        limited_api=next((_at(word.value) for _, word in keywords if _is_true(word, "py_limited_api")), None),
        no_ninja=any(_is(word, "use_ninja", False) for _, word in keywords),
        texts=tuple(_texts(module)),
    )


def called(call: ast.Call) -> str:
    """Return the last name of a called function: "get" of `os.environ.get(...)`."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _at(node: ast.AST) -> Where:
    return Where(NAME, getattr(node, "lineno", 0))


def _is_true(word: ast.keyword, name: str) -> bool:
    return _is(word, name, True)


def _is(word: ast.keyword, name: str, value: bool) -> bool:
    return word.arg == name and isinstance(word.value, ast.Constant) and word.value.value is value


def _assigned(module: ast.Module) -> dict[str, str]:
    """Return the names that the script assigns a text once, at its top level."""
    found: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    found[target.id] = node.value.value
    return found


def _literals(node: ast.AST, constants: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts in a value, which may be a text or a list."""
    for each in node.elts if isinstance(node, ast.List | ast.Tuple) else [node]:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        elif isinstance(each, ast.Name) and each.id in constants:
            yield constants[each.id]


def _imports(module: ast.Module, files: Files) -> Iterator[Import]:
    """Yield the imported modules, also of functions, as most of them run in a build; not the project's own."""
    guarded = {
        id(inner)
        for node in ast.walk(module)
        if isinstance(node, ast.Try)
        for body in node.body
        for inner in ast.walk(body)
    }
    own = {name.partition("/")[0].removesuffix(".py") for name in files.names}
    for node in ast.walk(module):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if top not in own:
                yield Import(top, _at(node), id(node) in guarded)


def _libraries(module: ast.Module, keywords: list[tuple[ast.Call, ast.keyword]]) -> Iterator[Seen]:
    """Yield the libraries that extensions are linked with: `libraries=[...]`, `-lname`."""
    for _, word in keywords:
        if word.arg == "libraries":
            yield from (Seen(text, _at(word.value)) for text in _literals(word.value, {}))
    for seen in _texts(module):
        if match := re.fullmatch(r"-l([A-Za-z]\w*)", seen.text):
            yield Seen(match[1], seen.where)


def _gpu_extensions(calls: list[ast.Call]) -> Iterator[Seen]:
    for call in calls:
        named = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "name")]
        if called(call) == "CUDAExtension":
            yield from (Seen(text, _at(call)) for each in named[:1] for text in _literals(each, {}))


def _texts(module: ast.Module) -> Iterator[Seen]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 500:
            yield Seen(node.value, _at(node))


def _gencodes(module: ast.Module) -> Iterator[Gencode]:
    """Yield nvcc's architectures, with the CUDA version that an `if` around them requires."""
    pending: list[tuple[ast.AST, str]] = [(module, "")]
    while pending:
        node, version = pending.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in re.finditer(_GENCODE, node.value):
                yield from _gencode(match, _at(node), version)
        required = version
        if isinstance(node, ast.If):
            required = _least_version(node.test) or version
            pending += [(each, version) for each in node.orelse]
            pending += [(each, required) for each in node.body]
        else:
            pending += [(each, version) for each in ast.iter_child_nodes(node)]


def _gencode(match: re.Match[str], where: Where, at_least: str) -> Iterator[Gencode]:
    """Yield the architectures in `arch=…,code=…` for nvcc, if there are any."""
    with contextlib.suppress(ValueError):
        arch = Arch.parse(match[1])
        codes = match[2].split(",")
        known = [code for code in map(_parsed, codes) if code]
        yield Gencode(
            match[0],
            where,
            at_least,
            arch,
            real=tuple(code for code in known if code.sm in codes),
            ptx=tuple(code for code in known if code.compute in codes),
        )


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
