"""Follows every way in which Python code of a wheel opens libraries to the names of these, for `--against`.

A file that mentions one of the means is read to its end: each use of them must be a call, and what that opens a name
that is known. Everything else is a file that may open any library.
"""

import ast
import codecs
import re
import sys
from collections.abc import Iterable, Mapping

from gpuforge.audit.model import Openings
from gpuforge.audit.read import contents
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.loading_code import of_tests
from gpuforge.audit.read.opening_calls import File
from gpuforge.audit.read.python_source import Parser, imported_names, last_name, walk
from gpuforge.binary.elf.header import MAGIC
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive, Member

# Functions that open libraries, ways to them by other names, and the variable that lets the next process open some
_MEANS = re.compile(
    rb"\b(?:CDLL|PyDLL|cdll|pydll|LoadLibrary|LibraryLoader|_?dlopen|dlmopen|__libc_dlopen_mode|load_library\w*|(?:enable_)?load_extension|load_dynamic"
    rb"|create_dynamic|ExtensionFileLoader)\b|load_nvidia_dynamic_lib|import\s+_?ctypes\s+as|(?:getattr|vars)\(\s*_?ctypes"
    rb"|ctypes\.__dict__|[\"'](?:_?ctypes|cffi)[\"']|LD_PRELOAD|LD_AUDIT"
)
_MODULES = {"ctypes", "_ctypes", "cffi"}
_OPENERS = {"CDLL", "PyDLL", "LoadLibrary", "dlopen"}
_LOADERS = {"cdll", "pydll"}  # they open what is written behind them, too: cdll["libx.so"]
_OTHERS = {
    "LibraryLoader", "load_library", "load_library_permanently", "load_nvidia_dynamic_lib", "load_extension",
    "enable_load_extension", "load_dynamic", "create_dynamic", "ExtensionFileLoader", "_dlopen", "dlmopen",
    "__libc_dlopen_mode",
}  # fmt: skip
_VARIABLES = re.compile(rb"LD_PRELOAD|LD_AUDIT")
# Code that is made at run time or read from data, modules by computed names, and programs that replace the process
_COMPUTED = re.compile(
    rb"\b(?:exec|eval|run_path|run_module|spec_from_file_location|SourceFileLoader|SourcelessFileLoader)\(|(?<!re\.)\bcompile\("
    rb"|\b(?:__import__|import_module)\b(?!\(\s*[\"'][\w.]+[\"']\s*[,)])|\bmodules(?:\[|\.get\()(?!\s*[\"'][\w.]+[\"']\s*[],)])|\bctypeslib\b"
    rb"|\b(?:pickle|dill|cloudpickle|joblib|marshal|shelve)\.(?:loads?|open|Unpickler)\(|\bos\.(?:exec|posix_spawn)\w*\("
    rb"|\b(?:pkgutil\.resolve_name|pydoc\.locate)\b"
    rb"|\xef\xbc[\xa1-\xba]|\xef\xbd[\x81-\x9a]|\xf0\x9d[\x90-\x9f]"  # letters that Python takes for those of ASCII
)
_REACHED = re.compile(
    rb"\bgetattr\(|\bvars\(|__dict__|\bglobals\(\)|__mro__|__bases__|__subclasses__|__getattribute__|\b(?:getmembers|attrgetter|methodcaller)\b"
)  # beside an import of a means
_ENCODING = re.compile(
    rb"(?i)\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*(?!utf-?8|latin|iso-8859|us-ascii|ascii|cp125)[-\w]"
)
_COMPILED = re.compile(rb"__import__|import_module|\bexec|\beval|marshal")  # in compiled Python
_TOKENS = 4_000_000  # that are parsed
_SOURCES = (".py", ".pyw", ".pth")
_DATA = re.compile(r"\A[^/]+\.data/(?:purelib|platlib)/")
_SCRIPT = re.compile(r"[^/]+\.data/scripts/")
_TEXTS = (
    ".md",
    ".rst",
    ".txt",
    ".pyi",
    ".h",
    ".hpp",
    ".cuh",
    ".c",
    ".cc",
    ".cpp",
    ".cu",
    ".html",
    ".js",
    ".css",
    ".pyx",
)
_IMPORT = re.compile(
    rb"(?m)^\s*(?:import|from)\s+(?:_?ctypes|cffi|cuda\.pathfinder|cuda\s+import\s+pathfinder)\b"
)


def collect(given: Iterable[Input]) -> dict[str, Openings]:
    """Return what the Python code of each input opens; of one that cannot be read any more, nothing is known."""
    found = {}
    for one in given:
        try:
            with one.open() as archive:
                found[one.label] = of_wheel(archive)
        except (MalformedError, OSError):  # it could be read a moment ago
            found[one.label] = Openings(unfollowed=(one.label,))
    return found


def of_wheel(archive: Archive) -> Openings:
    """Return what the Python code of a wheel opens. Raises MalformedError for a broken archive."""
    parser = Parser(_TOKENS)
    names: dict[str, str] = {}
    unfollowed: list[str] = []
    computed: list[str] = []
    tests: list[str] = []
    imported = set[str]()
    left: dict[str, set[str]] = {}  # file -> its functions that open what their callers name
    for member in archive.members:
        if not member.packed or member.size > contents.UNPACKED or _is_of_others(member):
            continue
        if archive.head(member, 4) == MAGIC:
            continue
        data = archive.data(member)
        if not (member.name.endswith(_SOURCES) or _SCRIPT.match(member.name)):
            unfollowed += [member.name] * _packs_python(data, archive)
            computed += [member.name] * bool(data[2:4] == b"\r\n" and _COMPILED.search(data))
            continue
        if not _is_example(member):
            imported.update(name.partition(".")[0] for name in imported_names(data))
        if _ENCODING.match(data):
            unfollowed.append(member.name)
        elif not _MEANS.search(data):
            computed += [member.name] * _makes_code(data)
        elif not (parsed := parser.parse(_code(member, data))) or not parsed.tree:
            # of another Python's syntax, or too large
            unfollowed.append(member.name)
        else:
            found = _Uses(parsed.tree)
            names |= dict.fromkeys(found.names, member.name)
            if found.functions is None or _VARIABLES.search(data):
                (tests if _is_example(member) else unfollowed).append(member.name)
            elif found.functions:
                left[member.name] = found.functions
            computed += [member.name] * _makes_code(data)
    called = _called_elsewhere(archive, left)
    users = [file for file in left if file not in called]
    own = {re.split(r"[/.]", _DATA.sub("", member.name))[0] for member in archive.members}
    others = sorted(imported - own - sys.stdlib_module_names)
    return Openings(names, (*unfollowed, *called), (*computed, *tests), tuple(users), tuple(others))


def _called_elsewhere(archive: Archive, left: Mapping[str, set[str]]) -> list[str]:
    """Return the files with a function whose name is in another Python file, which may call it."""
    if not left:
        return []
    others = [m for m in archive.members if m.name.endswith(".py") and m.packed and not _is_example(m)]
    words = {m.name: set(re.findall(rb"\w+", archive.data(m))) for m in others}
    return [
        file
        for file, functions in left.items()
        if any(
            name.encode() in found for other, found in words.items() if other != file for name in functions
        )
    ]


def _is_of_others(member: Member) -> bool:
    """Return whether Python runs no code of a file, whatever it says: texts for people and for compilers."""
    return member.name.endswith(_TEXTS) or ".dist-info/" in member.name


def _makes_code(data: bytes) -> bool:
    return bool(_COMPUTED.search(data) or (_IMPORT.search(data) and _REACHED.search(data)))


def _packs_python(data: bytes, archive: Archive) -> bool:
    try:
        return any(_may_be_python(part) for part, _ in contents.parts(data, archive.budget))
    except MalformedError:
        return False  # counted as a file that was not unpacked


def _is_example(member: Member) -> bool:
    """Return whether no import of the package leads to a file."""
    return of_tests(member) or "examples/" in member.name


def _may_be_python(data: bytes) -> bool:
    """Return whether bytes may be code: a text that imports a means, a script, code that names one."""
    if data.startswith(MAGIC):
        return False
    named = data[2:4] == b"\r\n" or b"ctypes" in data or (data.startswith(b"#!") and _VARIABLES.search(data))
    return bool(_IMPORT.search(data)) or bool(named and _MEANS.search(data))


def _code(member: Member, data: bytes) -> bytes:
    """Return the code of a file; of a file of paths the lines that Python's `site` runs."""
    if not member.name.endswith(".pth"):
        return data
    data = data.removeprefix(codecs.BOM_UTF8)
    return b"\n".join(line for line in data.splitlines() if line.startswith((b"import ", b"import\t")))


class _Uses:
    """The uses of means in a file: the names that they open, and the functions around those that open other things.

    `functions` is None if one of these is not in a function, or in one that the file itself uses.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._file = file = File(tree)
        self.names: set[str] = set()
        self.functions: set[str] | None = set()
        modules = {
            each.asname or each.name.partition(".")[0]
            for node in walk(tree)
            if isinstance(node, ast.Import)
            for each in node.names
            if each.name.partition(".")[0] in _MODULES
        }
        unfollowed = [node for node in walk(tree) if self._is_passed_on(node, modules)]
        for call in file.calls:
            values = list(file.opened(call))
            self.names |= {value.text for value in values} - {""}
            unfollowed += [call] * (not all(value.exact for value in values))
        around = [self._outermost(node) for node in unfollowed]
        if None in around or file.left <= 0:
            self.functions = None
        else:
            self.functions = {name for name in around if name}
            if any(self._is_used(name) for name in self.functions):
                self.functions = None

    def _is_passed_on(self, node: ast.AST, modules: set[str]) -> bool:
        """Return whether a means is used other than by calling it: in a variable, by `getattr`, as `cdll.name`."""
        above = self._file.parents.get(id(node))
        # import_module("ctypes"), sys.modules["ctypes"], attrgetter("CDLL")
        if isinstance(node, ast.Constant):
            named = isinstance(node.value, str) and node.value.rpartition(".")[2] in _OPENERS
            return isinstance(above, ast.Call | ast.Subscript) and (named or node.value in _MODULES)
        if isinstance(node, ast.MatchClass):  # case object(CDLL=opener)
            return not _OPENERS.isdisjoint(node.kwd_attrs)
        if isinstance(node, ast.ImportFrom):
            of_means = _OPENERS | _LOADERS if (node.module or "").partition(".")[0] in _MODULES else set()
            return any(each.asname and each.name in of_means | _OTHERS for each in node.names)
        if isinstance(node, ast.Name) and node.id in modules and isinstance(above, ast.Call):
            # an attribute is found by its name, whatever has the module
            return last_name(above.func) in {"getattr", "vars"}
        name = last_name(node)
        if name in _LOADERS:
            return not (isinstance(above, ast.Attribute) and above.attr == "LoadLibrary")
        if name == "__dict__" and isinstance(node, ast.Attribute) and last_name(node.value) in modules:
            return True
        if name in _OTHERS and name not in self._file.functions:
            return True
        return (
            name in _OPENERS and name not in self._file.functions and not _is_called_or_compared(node, above)
        )

    def _outermost(self, node: ast.AST) -> str | None:
        """Return the name of the function of the module around a node; None if there is none."""
        found = None
        while (above := self._file.parents.get(id(node))) is not None:
            node = above
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found = None if isinstance(node, ast.ClassDef) or node.decorator_list else node.name
        return found

    def _is_used(self, name: str) -> bool:
        loaded = (n for n in self._file.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        return any(node.id == name for node in loaded)


def _is_called_or_compared(node: ast.AST, above: ast.AST | None) -> bool:
    """Return whether a function is called, or only names a type: in `isinstance`, or in an annotation."""
    if isinstance(above, ast.Call):
        return above.func is node or last_name(above.func) == "isinstance"
    if isinstance(above, ast.arg | ast.AnnAssign):
        return above.annotation is node
    return isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef) and above.returns is node
