"""Find the Python code of a wheel that loads shared libraries by itself, before the linker would look for them.

It reads code, not behaviour: a file loads such libraries, but perhaps not always. Files with the names of such calls
are parsed; the patterns are then applied to their code without comments, docstrings and sentences.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuforge.audit.model import Launcher, Preload
from gpuforge.audit.read.framework_imports import refuses_another
from gpuforge.audit.read.opening_calls import imported_before, opening_calls, uncalled, used_names
from gpuforge.audit.read.python_source import Parser, Source, dotted, imported_names, walk
from gpuforge.binary.window import find_all
from gpuforge.cuda.carriers import frameworks
from gpuforge.errors import CorruptError, MalformedError
from gpuforge.runtime import layout
from gpuforge.runtime.layout import HOME
from gpuforge.wheel.archive import Archive, Member

if TYPE_CHECKING:
    from gpuforge.wheel.checks.commands import EntryPoint

# faster to search for than the pattern; and how many bytes around each are read
_CALLS = (b"CDLL(", b"ibrary(", b"ibraries(", b"loadPlugins", b"dynamic_lib(")
_BEFORE, _BEHIND = 128, 512
_LOADING = r"CDLL|load_nvidia_dynamic_lib|[lL]oad(?=\w*?(?:[lL]ibrar|Plugins))\w*+"
_LOADS = rb"\b(?:%b)\(" % _LOADING.encode()
# The C library is in every process: code that opens it loads nothing new.
_LIBC = (
    rb"\bCDLL\(\s*(?:name\s*=\s*)?(?:None|[\"'](?:libc\.so\.6)?[\"']|[\w.]*find_library\(\s*[\"']c[\"']\s*\))"
)
_OPENS = rb"\b(?:CDLL|LoadLibrary|load_nvidia_dynamic_lib|%b)\(\s*([^\n]{0,400})"
_WRITTEN = rb"[\"'][\w./-]{3,}[\"']"  # a name without placeholders
# Code that starts a program gives it a search path.
_STARTS = rb"\bPopen\(|\bsubprocess\.\w+\(|\bos\.(?:exec|spawn|posix_spawn)\w*\(|\bos\.system\("
# A script that pip puts beside Python, or a console entry point, starts the program of its name.
_SCRIPT = r"[^/]+\.data/scripts/([^/]+)"
_BESIDE = r"\A[^/]+\.data/(?:purelib|platlib)/"
_PYTHON = rb"#!\s*(?:python|\S*/(?:env\s+)?python)"
_IMPORTS = rb"(?m)^[ \t]*(?:from|import)[ \t]+(\w+)"
_ENTRY_POINTS = r"[^/]+\.dist-info/entry_points\.txt"
# The file in which torch has its versions
_VERSION_FILE = r"[^/]+/version\.py"
_RELEASE = rb"(?m)^cuda(?:: [^=\n]{1,80})? ?= ?[\"'](\d{1,3}\.\d{1,3})[\"']"
# Compiled code may also open libraries that it gets by a variable of the package.
_HANDS_OVER = rb"environ\[\s*[\"'](?!LD_)(?=\w*?LIB)\w*+[\"']\s*\]\s*=[^=]"
# A package of a library may have a function that loads it: `nvidia.libnvcomp.load_library()`. The alternatives are
# separate, as below, because each is searched for by its first letters.
_NAMES = (rb"lib(?<!\wlib)(\w+)\.(?:so|load_library\()", rb"[\"'](?:lib)?([A-Za-z]\w+)[\"']")
_A_LIBRARY = rb"\blib\w+\.so"
# A file with these is parsed: a name that may also be in prose, and a comparison; not CUDA's own name.
_WORTH = rb"\blib\w+\.so|find_library\(|load_nvidia_dynamic_lib|%b|[\"'](?!cuda)(?:cu|nv|nccl)\w+[\"']"
_COMMENT = rb"#[^\n]*"
# A bare name is searched where the linker searches, so opening it changes nothing: the code must make a path of it.
_BARE = rb"[\"']lib\w+\.so"
_PATHS = (
    rb"__file__|__path__|purelib|platlib|site-packages|sys\.path|sys\.prefix|os\.path\.|\bPath\(|find_spec|os\.environ|getenv"
    rb"|resources|\bglob|listdir|iterdir|scandir|\bwalk\(|\bfiles\(|import nvidia"
)
_OF_CTYPES = rb"\b(?:CDLL|PyDLL|LoadLibrary)\("
_SONAME = rb"\blib\w+\.so\.\d[\d.]*\b"
_WHOLE_FOLDERS = rb"\bi?r?glob\(|listdir\(|iterdir\(|scandir\("
_CUDAS = (rb"cu\w+", rb"nv\w+", rb"nccl\w*")
_LARGEST = 4 << 20  # bytes; larger Python files are data
_LARGEST_SCRIPT = 1 << 18  # bytes
_PARSED = 32  # characters of the budget for each character of entry points, which become objects
_LISTS = (".json", ".toml", ".cfg", ".txt")
_LARGEST_LIST = 1 << 18  # bytes


class _Patterns(NamedTuple):
    """Patterns with the frameworks' names in them.

    `ops`: a framework opens an object of its own kind, in which other objects find nothing.
    """

    ops: bytes
    opened: bytes
    worth: bytes


@cache
def _patterns() -> _Patterns:
    opens = b"|".join(re.escape(name.encode()) for each in frameworks() for name in each.opens)
    releases = b"|".join(re.escape(each.cuda_release.encode()) for each in frameworks() if each.cuda_release)
    return _Patterns(rb"\b(?:%b)\(" % opens, _OPENS % opens, _WORTH % releases)


class PythonCode:
    """The Python code of a wheel and the files beside it. An unreadable file is empty, with the reason in `damaged`."""

    def __init__(self, archive: Archive) -> None:
        self.members = archive.members
        self.budget = archive.budget
        self.damaged: dict[str, str] = {}
        self.corrupt: set[str] = set()
        self._archive = archive

    def is_of_runtime(self, member: Member) -> bool:
        """Return whether a file has the very bytes of this gpuforge's runtime, which loads what its index names."""
        package, _, file = member.name.partition(f"/{HOME}/")
        own = _runtime().get(file) if package else None
        return own is not None and member.size == len(own) and self.text(member) == own

    def text(self, member: Member) -> bytes:
        """Return a file's text."""
        try:
            return self._archive.data(member)
        except MalformedError as error:
            self.damaged[member.name] = error.diagnostics[0].message
            if isinstance(error, CorruptError):
                self.corrupt.add(member.name)
            return b""


@cache
def _runtime() -> Mapping[str, bytes]:
    folder = Path(layout.__file__).parent
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")}


def cuda_release(code: PythonCode) -> str:
    """Return the CUDA release that a wheel's `version.py` names, as torch's does: "13.2"; "" for none."""
    for member in code.members:
        named = re.fullmatch(_VERSION_FILE, member.name) and member.size <= _LARGEST_SCRIPT
        if named and (match := re.search(_RELEASE, code.text(member))):
            return match[1].decode()
    return ""


class Loading(NamedTuple):
    """The Python files of a wheel that load libraries, start programs, or refuse a framework: see `WheelFacts`."""

    preloads: tuple[Preload, ...] = ()
    launchers: tuple[Launcher, ...] = ()
    compares_cuda: Mapping[str, tuple[str, ...]] = {}
    nvidia_modules: frozenset[str] = frozenset()


def loading(code: PythonCode) -> Loading:
    """Read the Python code of a wheel."""
    parser = Parser()
    preloads: list[Preload] = []
    launchers: list[Launcher] = []
    compared: dict[str, tuple[str, ...]] = {}
    imported: set[str] = set()
    for member in _modules(code):
        text = code.text(member)
        if b"nvidia" in text:
            names = (name.split(".") for name in imported_names(text))
            imported.update(".".join(parts[:2]) for parts in names if parts[0] == "nvidia")
        if b"LD_LIBRARY_PATH" in text and re.search(_STARTS, text):
            launchers.append(Launcher(member.name))
        source = None
        if _may_load(text):
            parsed = re.search(_patterns().worth, text)
            source = reached(parser.parse(text)) if parsed else Source(re.sub(_COMMENT, b"", text))
        if source and _may_load(read := source.code()):
            preloads.append(_loader(member.name, read, source.tree))
            if source.tree and (framework := _compared(read, source.tree)):
                compared[framework] = (*compared.get(framework, ()), member.name)
    launchers += _launchers(code, {_package(each.file) for each in launchers})
    found = _with_lists(code, _left_to_users(code, tuple(preloads), parser))
    return Loading(found, tuple(launchers), compared, frozenset(imported))


def _with_lists(code: PythonCode, found: tuple[Preload, ...]) -> tuple[Preload, ...]:
    """Add to each file that opens lists of libraries the libraries beside it."""
    lists = [p for p in found if (p.everything or p.pathfinder) and not p.fixed and not p.ops]
    if not lists:
        return found
    near = _listed(code, {p.file.rpartition("/")[0] for p in lists})
    # code that calls cuda.pathfinder loads NVIDIA's libraries, whose names may come from any module
    listed = near | _listed(code, None) if any(p.pathfinder for p in lists) else near
    return tuple(p._replace(listed=listed if p.pathfinder else near) for p in found)


def _may_load(text: bytes) -> bool:
    return _hands_over(text) or re.search(_LOADS, _calls(text)) is not None


def _hands_over(text: bytes) -> bool:
    return b"environ[" in text and re.search(_HANDS_OVER, text) is not None


def _loader(file: str, text: bytes, tree: ast.Module | None) -> Preload:
    calls, hands_over = _calls(text), _hands_over(text)
    pathfinder = b"load_nvidia_dynamic_lib(" in text
    opened = re.findall(_patterns().opened, calls)
    ops = not hands_over and not re.search(_LOADS, re.sub(_patterns().ops, b"", calls))
    by_users = None
    if tree and not (hands_over or ops) and (pathfinder or re.search(_A_LIBRARY, text)):
        by_users = uncalled(tree, _LOADING)
    opening = opening_calls(tree) if tree and not (pathfinder or hands_over) else None
    # of values that are not known, a file that names libraries and makes no paths opens bare names
    bare = not pathfinder and re.search(_BARE, text) is not None and re.search(_PATHS, text) is None
    # whether all calls that load libraries are those of ctypes, whose arguments were followed
    if opening and tree and not re.search(_LOADS, re.sub(_OF_CTYPES, b"", calls)):
        bare = not opening.paths or (bare and not opening.known)
    names = _names(text)
    return Preload(
        file=file,
        pathfinder=pathfinder,
        everything=b"RTLD_GLOBAL" in text and b"CDLL(" in text,
        names=names,
        by_path=frozenset()
        if bare
        else names - (_bare_names(tree, opening.bare) if opening and tree else set()),
        folders=re.search(_WHOLE_FOLDERS, text) is not None,
        bare=bare,
        ops=ops,
        fixed=bool(opened) and all(re.search(_WRITTEN, argument) for argument in opened),
        uncalled=by_users
        and by_users._replace(names=frozenset(by_users.strings) | _names(_quoted(by_users.strings))),
        by_name=opening.by_name if opening else (),
        sonames=frozenset(name.decode() for name in re.findall(_SONAME, text)),
        imported_before=imported_before(tree, _LOADING) if tree else frozenset(),
    )


def _bare_names(tree: ast.Module, bare: Collection[int]) -> frozenset[str]:
    """Return the names in strings that only name libraries to be opened by their bare names."""
    strings = [
        (id(n), n.value) for n in walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    others = _names(_quoted(text for place, text in strings if place not in bare))
    return _names(_quoted(text for place, text in strings if place in bare)) - others


def _quoted(strings: Iterable[str]) -> bytes:
    return "".join(f'"{each}"' for each in strings).encode("utf-8", "replace")


def _compared(text: bytes, tree: ast.Module) -> str:
    """Return the framework whose CUDA release a file compares with its own, refusing others; "" for none."""
    compared = (e for e in frameworks() if e.cuda_release and e.cuda_release.encode() in text)
    return next((each.package for each in compared if refuses_another(tree, each.cuda_release)), "")


def _names(text: bytes) -> frozenset[str]:
    names = {name for pattern in _NAMES for name in re.findall(pattern, text)}
    return frozenset(name.decode("ascii", "replace") for name in names)


def _left_to_users(code: PythonCode, found: tuple[Preload, ...], parser: Parser) -> tuple[Preload, ...]:
    """Return the files that load libraries; functions that other files of the wheel use do not count as uncalled."""
    left = {p.file: p.uncalled.functions for p in found if p.uncalled}
    if left:
        points = (point for member in code.members for point in _entry_points(code, member))
        used = (_used(member, code.text(member), left, parser) for member in _modules(code))
        for files in chain(used, (_entered(point, left) for point in points)):
            for file in files:
                del left[file]
            if not left:
                break
    return tuple(p._replace(uncalled=None) if p.uncalled and p.file not in left else p for p in found)


def _used(member: Member, text: bytes, left: Mapping[str, Sequence[str]], parser: Parser) -> list[str]:
    """Return the files whose functions this one uses: it contains their module's name and a function's name."""
    others = {file: names for file, names in left.items() if file != member.name}
    near = {file: names for file, them in others.items() if (names := _named(text, file, them))}
    if near and member.name.endswith(".py"):
        source = parser.parse(text)
        known = used_names(source.tree.body) if source and source.tree else None
        near = {file: names for file, names in near.items() if source and (known is None or names & known)}
    return list(near)


def _entered(point: EntryPoint, left: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the files with a function that an entry point calls."""
    module, _, function = point.target.partition(":")
    names = set(re.findall(r"\w+", function))
    return [f for f, them in left.items() if _module(f) == module.strip() and not names.isdisjoint(them)]


def _named(text: bytes, file: str, functions: Iterable[str]) -> set[str]:
    """Return the functions of a file whose names are in a text that also has their module's name."""
    if _module(file).rpartition(".")[2].encode() not in text:
        return set()
    return {name for name in functions if re.search(rb"\b%b\b" % name.encode(), text)}


def _modules(code: PythonCode) -> Iterator[Member]:
    """Yield the Python files but those of gpuforge's runtime.

    Those of tests are among them only if tests have libraries, because nothing else imports them.
    """
    read_tests = any(".so" in member.name and of_tests(member) for member in code.members)
    for member in code.members:
        is_read = member.name.endswith(".py") and member.size <= _LARGEST
        if is_read and (read_tests or not of_tests(member)) and not code.is_of_runtime(member):
            yield member


def of_tests(member: Member) -> bool:
    """Return whether a file is in a folder of tests."""
    return "/tests/" in member.name or "/test/" in member.name


def _calls(text: bytes) -> bytes:
    """Return the code around calls that may load a library other than the C library; most files have none."""
    parts, end = [], 0
    for hit in sorted(at for word in _CALLS for at in find_all(text, word)):
        if hit - _BEFORE > end:
            parts.append(b"\n")
        parts.append(text[max(end, hit - _BEFORE) : hit + _BEHIND])
        end = hit + _BEHIND
    return re.sub(_LIBC, b"", b"".join(parts)) if parts else b""


def _launchers(code: PythonCode, starting: Collection[str]) -> Iterator[Launcher]:
    """Yield the scripts and console entry points that may start the program of their name with a path to libraries.

    Their code is in one of the wheel's packages that do so (`starting`), or in a package that is not read.
    """
    found = [m for m in code.members if "/scripts/" in m.name or m.name.endswith("/entry_points.txt")]
    own = {_package(member.name) for member in code.members} if found else set()
    known = (own | sys.stdlib_module_names) - set(starting)
    for member in found:
        script = re.fullmatch(_SCRIPT, member.name)
        if not script:
            points = _entry_points(code, member, ("console_scripts",))
            names = {each.name for each in points if re.split(r"[.:]", each.target)[0].strip() not in known}
        elif member.size <= _LARGEST_SCRIPT and re.match(_PYTHON, text := code.text(member)):
            names = {script[1]} if {top.decode() for top in re.findall(_IMPORTS, text)} - known else set()
        else:
            continue
        if names:
            yield Launcher(member.name, frozenset(names))


def _package(member: str) -> str:
    """Return the top-level import name of a member: "demo" for demo/run.py and for demo.py."""
    return _installed(member).partition("/")[0].removesuffix(".py")


def _module(file: str) -> str:
    """Return the import name of a Python file: "demo.run" for demo/run.py and for demo/run/__init__.py."""
    return _installed(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _installed(member: str) -> str:
    return re.sub(_BESIDE, "", member) if ".data/p" in member else member


def _entry_points(
    code: PythonCode, member: Member, groups: Collection[str] | None = None
) -> list[EntryPoint]:
    """Return the entry points in a file, of these groups or of all; none of a file that pip refuses."""
    from gpuforge.wheel.checks.commands import of_pip  # noqa: PLC0415  few wheels have commands; its readers take 10 ms

    if not re.fullmatch(_ENTRY_POINTS, member.name) or member.size > _LARGEST_SCRIPT:
        return []
    text = code.text(member)
    code.budget.spend("names", _PARSED * len(text))
    try:
        return of_pip(text, groups)
    except MalformedError:
        return []  # reported as GF712


def _listed(code: PythonCode, folders: set[str] | None) -> frozenset[str]:
    """Return the names of CUDA libraries in the Python files and lists in `folders`, or in all Python files."""
    found: set[bytes] = set()
    for member in code.members:
        near = folders is not None and member.name.rpartition("/")[0] in folders
        python = member.name.endswith(".py") and member.size <= _LARGEST and (near or folders is None)
        beside = near and member.name.endswith(_LISTS) and member.size <= _LARGEST_LIST
        if python or beside:
            text = code.text(member)
            found.update(*(re.findall(pattern, text) for pattern in _CUDAS))
    return frozenset(name.decode("ascii", "replace") for name in found)


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


def reached(source: Source | None) -> Source | None:
    """Return a file without the code that no import runs on Linux, in its text as in its tree.

    That is code for other systems, and for variables to be set.
    """
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
