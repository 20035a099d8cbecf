"""Reads `setup.py` as a syntax tree: imports, extensions, libraries, architectures and environment variables."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuforge.project.build_variables import Switch, switches
from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.script_texts import ScriptTexts, Texts, last_name
from gpuforge.runtime.arch import Arch

NAME = "setup.py"
_LARGEST = 300_000  # characters; setuptools' own has 3,000
_GENCODE = r"arch=(\w+),code=\[?([\w,]+)\]?"
_DOWNLOADS = ("urllib", "requests", "urllib3", "httpx")
_HELPS = r"build|setup|cmake|tool|helper|compil|cuda|ext"
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
    helpers: tuple[str, ...] = ()  # files of the project that it imports
    names: Mapping[str, Where] = field(default_factory=dict)  # all names, also of attributes: the first use
    libraries: tuple[Seen, ...] = ()
    gencodes: tuple[Gencode, ...] = ()
    switches: tuple[Switch, ...] = ()
    gpu_extensions: tuple[Seen, ...] = ()  # the modules of extensions with CUDA sources
    computed_extensions: Where | None = None  # one whose name only a run knows
    computed_archs: Where | None = None  # flags for architectures that only a run knows
    limited_api: Where | None = None
    no_ninja: bool = False
    texts: tuple[Seen, ...] = ()  # all short texts


def read(files: Files) -> Script:
    """Parse setup.py, and the modules of the project that help it; the result is empty if Python cannot parse it."""
    script = _parsed_file(files, NAME) or Script(exists=bool(files.text(NAME)))
    for name in dict.fromkeys(script.helpers):
        if helper := _parsed_file(files, name):
            script = _merged(script, helper)
    return script


def _parsed_file(files: Files, name: str) -> Script | None:
    text = files.text(name)
    if not text or len(text) > _LARGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its escapes and comparisons
            module = ast.parse(text)
        return _Reader(module, files, name).script()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _merged(script: Script, helper: Script) -> Script:
    """Return a script with what a helper adds to the build."""
    return replace(
        script,
        names={**helper.names, **script.names},
        imports=(*script.imports, *helper.imports),
        downloads=(*script.downloads, *helper.downloads),
        libraries=(*script.libraries, *helper.libraries),
        gencodes=(*script.gencodes, *helper.gencodes),
        switches=(*script.switches, *helper.switches),
        gpu_extensions=(*script.gpu_extensions, *helper.gpu_extensions),
        texts=(*script.texts, *helper.texts),
        no_ninja=script.no_ninja or helper.no_ninja,
        computed_archs=script.computed_archs or helper.computed_archs,
        computed_extensions=script.computed_extensions or helper.computed_extensions,
    )


class _Reader:
    """Reads one file."""

    def __init__(self, module: ast.Module, files: Files, file: str) -> None:
        self.module, self.files, self.file = module, files, file
        self.texts = ScriptTexts(module)
        self.calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
        self.keywords = [(call, word) for call in self.calls for word in call.keywords if word.arg]
        self.computed: dict[str, Where] = {}  # the first place of what only a run knows

    def script(self) -> Script:
        names: dict[str, Where] = {}
        for node in ast.walk(self.module):
            if isinstance(node, ast.Name | ast.Attribute):
                names.setdefault(last_name(node), self.at(node))
        imports = list(self.imports())
        return Script(
            exists=True,
            arguments={
                word.arg or "": tuple(self.literals(word.value))
                for call, word in self.keywords
                if last_name(call.func) == "setup" and word.arg in _METADATA
            },
            imports=tuple(each for each in imports if each.module not in sys.stdlib_module_names),
            downloads=tuple(Seen(each.module, each.where) for each in imports if each.module in _DOWNLOADS),
            helpers=tuple(self.helpers()),
            names=names,
            libraries=tuple(self.libraries()),
            gencodes=tuple(self.gencodes()),
            switches=tuple(switches(self.module, self.file)),
            gpu_extensions=tuple(self.gpu_extensions()),
            computed_extensions=self.computed.get("extension"),
            computed_archs=self.computed.get("arch"),
            limited_api=next(
                (self.at(word.value) for _, word in self.keywords if _is(word, "py_limited_api", True)), None
            ),
            no_ninja=any(_is(word, "use_ninja", False) for _, word in self.keywords),
            texts=tuple(self.constants()),
        )

    def at(self, node: ast.AST) -> Where:
        return Where(self.file, getattr(node, "lineno", 0))

    def constants(self) -> Iterator[Seen]:
        """Yield all short texts."""
        for node in ast.walk(self.module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 500:
                yield Seen(node.value, self.at(node))

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
            for node in ast.walk(self.module)
            if isinstance(node, guards)
            for body in node.body
            for inner in ast.walk(body)
        }
        own = {name.partition("/")[0].removesuffix(".py") for name in self.files.names}
        for node, name in self.imported():
            if (top := name.partition(".")[0]) not in own:
                yield Import(top, self.at(node), id(node) in guarded)

    def imported(self) -> Iterator[tuple[ast.AST, str]]:
        for node in ast.walk(self.module):
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                yield node, node.module

    def helpers(self) -> Iterator[str]:
        """Yield the project's modules that help setup.py; not those of the package that is built."""
        for _, name in self.imported():
            path = name.replace(".", "/")
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if file in self.files.names and ("/" not in file or re.search(_HELPS, path)):
                    yield file

    def libraries(self) -> Iterator[Seen]:
        """Yield the libraries that extensions are linked with: `libraries=[...]`, `-lname`."""
        for _, word in self.keywords:
            if word.arg == "libraries":
                named = word.value.elts if isinstance(word.value, ast.List | ast.Tuple) else []
                texts = [each.value for each in named if isinstance(each, ast.Constant)]
                yield from (Seen(text, self.at(word.value)) for text in texts if isinstance(text, str))
        for seen in self.constants():
            if match := re.fullmatch(r"-l((?!ineinfo)[A-Za-z]\w*)", seen.text):
                yield Seen(match[1], seen.where)

    def gpu_extensions(self) -> Iterator[Seen]:
        """Yield the modules of extensions with CUDA sources."""
        for call in self.calls:
            words = {word.arg: word.value for word in call.keywords}
            name = words.get("name", call.args[0] if call.args else None)
            sources = words.get("sources", call.args[1] if len(call.args) > 1 else None)
            if name is None or not self.is_cuda(call.func, sources):
                continue
            for text in self.texts.of(name):
                if text is None:
                    self.computed.setdefault("extension", self.at(call))
                else:
                    yield Seen(text, self.at(call))

    def is_cuda(self, function: ast.expr, sources: ast.expr | None) -> bool:
        """Return whether a call makes an extension with CUDA sources; those that only a run knows count for torch."""
        name = last_name(function)
        alias = [node for value in self.texts.assigned(name) for node in ast.walk(value)]
        of_torch = name == "CUDAExtension" or any(
            isinstance(node, ast.Name | ast.Attribute) and last_name(node) == "CUDAExtension"
            for node in alias
        )
        if not of_torch and name != "Extension":
            return False
        found = self.texts.items(sources) if sources is not None else (None,)
        return any(text.endswith(".cu") if text is not None else of_torch for text in found)

    def gencodes(self) -> Iterator[Gencode]:
        """Yield nvcc's architectures, with the CUDA version that an `if` around them requires."""
        pending: list[tuple[ast.AST, str]] = [(self.module, "")]
        while pending:
            node, version = pending.pop()
            if isinstance(node, ast.expr) and (found := self.flags(node)):
                for text in found:
                    yield from self.gencode(text, node, version)
                continue
            required = version
            if isinstance(node, ast.If):
                required = _least_version(node.test) or version
                pending += [(each, version) for each in node.orelse]
                pending += [(each, required) for each in node.body]
            else:
                pending += [(each, version) for each in ast.iter_child_nodes(node)]

    def flags(self, node: ast.expr) -> Texts:
        """Return the texts of an expression that makes nvcc's flags for architectures."""
        if isinstance(node, ast.Constant):
            return (node.value,) if isinstance(node.value, str) and "arch=" in node.value else ()
        makes = isinstance(node, ast.JoinedStr | ast.BinOp) or (
            isinstance(node, ast.Call) and last_name(node.func) == "format"
        )
        words = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)] if makes else []
        return self.texts.of(node) if any(re.search(r"gencode|,code=", str(word)) for word in words) else ()

    def gencode(self, text: str | None, node: ast.expr, at_least: str) -> Iterator[Gencode]:
        """Yield the architectures in `arch=…,code=…` for nvcc, if there are any."""
        if text is None:
            self.computed.setdefault("arch", self.at(node))
        for match in re.finditer(_GENCODE, text or ""):
            with contextlib.suppress(ValueError):
                arch = Arch.parse(match[1])
                codes = match[2].split(",")
                known = [code for code in map(_parsed, codes) if code]
                if not isinstance(node, ast.Constant) and known[:1] != [arch]:
                    continue  # a combination of two loops' values
                real = tuple(code for code in known if code.sm in codes)
                ptx = tuple(code for code in known if code.compute in codes)
                yield Gencode(match[0], self.at(node), at_least, arch, real, ptx)


def _is(word: ast.keyword, name: str, value: bool) -> bool:
    return word.arg == name and isinstance(word.value, ast.Constant) and word.value.value is value


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
