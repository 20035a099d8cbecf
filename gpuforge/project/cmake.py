"""Finds the use of CUDA in a project's CMake files, and the options for it; CMake is not run."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuforge.cuda.version import numbers_of
from gpuforge.project.cmake_archs import Archs
from gpuforge.project.cmake_branches import ALWAYS, Branches, Versions, both, is_elsewhere
from gpuforge.project.cmake_syntax import Command, commands
from gpuforge.project.files import Files, Seen, Where

TOP = "CMakeLists.txt"
_DEEPEST = 20  # files that include each other, conditions around a command, and words of a condition
_MOST = 2000  # files
_SOURCE = (
    r"(?:\$\{(?:CMAKE_CURRENT_LIST_DIR|CMAKE_CURRENT_SOURCE_DIR|PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/)?"
)
_FETCHES = frozenset({"fetchcontent_declare", "externalproject_add", "cpmaddpackage", "cpmfindpackage"})
_NAME = r"[A-Za-z_]\w{0,199}"
_VERSION = r"\d{1,9}(\.\d{1,9}){0,3}"
_STATIC = r"(?:CUDA::|lib)?(\w+_static)(?:\.a)?"
_SHARED = r"(?i)(?!CMAKE_)\w*(SHARED|DYNAMIC)\w*"  # variables by which a project selects shared libraries


@dataclass(frozen=True, slots=True)
class Use:
    """A command with the options that must be on for it to run, the outermost first."""

    where: Where
    options: tuple[str, ...]
    version: str = ""  # of CUDA, from find_package(CUDAToolkit 12.9)


@dataclass(frozen=True, slots=True)
class Download:
    """A download by a command, with the options around it."""

    what: str
    where: Where
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Static:
    """A static library of CUDA: "nccl_static"."""

    name: str
    where: Where
    unless: str  # the variable that selects the shared library if it is true; "" for none
    options: tuple[str, ...] = ()  # options that must be on


@dataclass(slots=True)
class _If:
    """An `if` around commands, in the branch that is being read."""

    needed: tuple[str, ...]  # options; () for other conditions
    branches: Branches
    variable: str = ""  # the only word of the first condition
    words: set[str] = field(default_factory=set)  # of the first branch
    otherwise: bool = False
    elsewhere: bool = False  # its branch is for other systems


class _Conditions(NamedTuple):
    """The conditions under which a command runs."""

    options: tuple[str, ...] = ()  # that are on; "!" among them if something else decides
    versions: Versions = ALWAYS  # of CUDA


@dataclass(slots=True)
class CMake:
    """The content of the top file and of all files that it includes."""

    options: dict[str, Seen] = field(default_factory=dict)  # the default ("ON", "OFF") of each
    set: set[str] = field(default_factory=set)  # variables that some file sets
    uses: list[Use] = field(default_factory=list)  # of CUDA
    packages: list[Seen] = field(default_factory=list)  # of find_package
    targets: list[Seen] = field(default_factory=list)  # "cufft" of CUDA::cufft, "nccl" of NCCL::NCCL
    static: list[Static] = field(default_factory=list)
    archs: Archs = field(default_factory=Archs)
    downloads: list[Download] = field(default_factory=list)
    native: list[Use] = field(default_factory=list)  # of -march=native
    minimum: Seen | None = None  # the oldest cmake_minimum_required


def read(files: Files, folder: str = "") -> CMake | None:
    """Read the CMakeLists.txt of a folder and the files that it includes; None if it has none."""
    top = posixpath.normpath(posixpath.join(folder, TOP))
    if top not in files.names:
        return None
    reader = _Reader(files, posixpath.dirname(top))
    reader.file(top, _Conditions())
    return reader.facts


class _Reader:
    def __init__(self, files: Files, top: str) -> None:
        self.files, self.top = files, top
        self.facts = CMake()
        self.seen: set[str] = set()
        self.computed: set[str] = set()  # files that add a folder from a variable
        self.depth = 0
        self.folders: dict[str, list[str]] = {}  # the values of variables
        self.modules: dict[str, str] = {}  # files by their last name
        for name in sorted(files.names):
            self.modules.setdefault(posixpath.basename(name), name)

    def file(self, name: str, above: _Conditions) -> None:
        """Read one file, which is included under these conditions."""
        if name in self.seen or len(self.seen) >= _MOST or self.depth >= _DEEPEST:
            return
        self.seen.add(name)
        self.depth += 1
        around: list[_If] = []
        for command in commands(self.files.text(name)):
            words = command.arguments
            if command.name == "if":
                variable = words[0] if len(words) == 1 else ""
                around.append(
                    _If(_needed(words), Branches.of(words), variable, elsewhere=is_elsewhere(words))
                )
            elif command.name in {"function", "macro"}:  # it is called elsewhere, under other conditions
                around.append(_If(("!",), Branches.of(())))
            elif command.name == "elseif" and around:
                branches = around[-1].branches.next(words)
                around[-1] = _If(_needed(words), branches, elsewhere=is_elsewhere(words))
            elif command.name == "else" and around:
                around[-1].needed, around[-1].otherwise, around[-1].elsewhere = ("!",), True, False
                around[-1].branches = around[-1].branches.next()
            elif command.name in {"endif", "endfunction", "endmacro"} and around:
                around.pop()
            elif not any(each.elsewhere for each in around):
                under = _conditions(above, around)
                self.command(name, command, under)
                inner = around[-1] if around else _If((), Branches.of(()))
                self._static(words, Use(Where(name, command.line), under.options), inner)
        self.depth -= 1

    def _static(self, words: tuple[str, ...], use: Use, inner: _If) -> None:
        """Note the static libraries among the words of a command, and the variable that selects the shared ones."""
        if not inner.otherwise:
            inner.words.update(words)
        for word in words:
            if match := re.fullmatch(_STATIC, word):
                chosen = inner.otherwise and word.replace("_static", "") in inner.words
                shared = chosen and re.fullmatch(_SHARED, inner.variable)
                variable = inner.variable if shared else ""
                self.facts.static.append(Static(match[1], use.where, variable, use.options))

    def command(self, file: str, command: Command, under: _Conditions) -> None:
        """Note the facts in one command."""
        where = Where(file, command.line)
        options = under.options
        words = command.arguments
        facts = self.facts
        if command.name in {"option", "cmake_dependent_option"} and words:
            default = words[2].upper() if len(words) > 2 else "OFF"
            facts.options.setdefault(words[0], Seen(default, where))
        elif command.name == "set" and words:
            self._set(words, where)
        elif command.name == "cmake_minimum_required":
            self._minimum(words, where)
        elif _is_cuda(command):
            facts.uses.append(Use(where, options, _asked(command)))
        if (
            command.name != "option"
            and "BOOL" not in words
            and any("-march=native" in word for word in words)
        ):
            facts.native.append(Use(where, options))
        if command.name == "find_package" and words and "!" not in options:
            facts.packages.append(Seen(words[0], where))
        if "!" not in options:
            for word in words:
                facts.targets += [Seen(name, where) for name in _targets(word)]
        facts.archs.note(command, where, under.versions)
        if what := _download(command):
            facts.downloads.append(Download(what, where, options))
        for name in self._leads_to(file, command):
            self.file(name, under)
        for name, option in self._folders_of_options(file, command):
            self.file(name, _Conditions((option,), under.versions))

    def _set(self, words: tuple[str, ...], where: Where) -> None:
        name, values = words[0], words[1:]
        if "CACHE" not in values:
            self.facts.set.add(name)
            if len(values) == 1 and len(folders := self.folders.setdefault(name, [])) < _DEEPEST:
                folders.append(values[0])
        elif (default := values[0].upper()) in {"ON", "OFF", "TRUE", "FALSE", "0", "1"}:
            self.facts.options.setdefault(name, Seen(default, where))

    def _minimum(self, words: tuple[str, ...], where: Where) -> None:
        version = words[1] if len(words) > 1 and words[0] == "VERSION" else ""
        newest = version.rpartition("...")[2]  # of a range, whose policies it takes
        if not re.fullmatch(_VERSION, newest):
            return
        if self.facts.minimum is None or numbers_of(newest) < numbers_of(self.facts.minimum.text):
            self.facts.minimum = Seen(newest, where)

    def _leads_to(self, file: str, command: Command) -> Iterator[str]:
        """Yield the files that a command reads: of a folder, a module, or a path."""
        if command.name == "find_package" and command.arguments:
            yield from filter(None, [self.modules.get(f"Find{command.arguments[0]}.cmake")])
        if command.name not in {"add_subdirectory", "include"} or not command.arguments:
            return
        folders = dict.fromkeys((posixpath.dirname(file), self.top))
        names: list[str] = []
        for path in self._paths(command.arguments[0]):
            if command.name == "add_subdirectory":
                names += [posixpath.join(folder, path, TOP) for folder in folders]
            else:
                module = path if path.endswith(".cmake") else f"{path}.cmake"
                names += [posixpath.join(folder, each) for folder in folders for each in (path, module)]
                names += [self.modules[module]] if module in self.modules else []
        yield from [name for name in map(posixpath.normpath, names) if name in self.files.names][:1]

    def _paths(self, word: str) -> list[str]:
        """Return the possible paths of a word: itself, or with the value of the variable that it begins with."""
        path = re.sub(_SOURCE, "", word, count=1)
        if match := re.match(r"\$\{(\w+)\}", path):
            values = self.folders.get(match[1], [])
            return [re.sub(_SOURCE, "", value, count=1) + path[match.end() :] for value in values]
        return [path]

    def _folders_of_options(self, file: str, command: Command) -> Iterator[tuple[str, str]]:
        """Yield the folders with the names of options, for a command whose folder is a variable."""
        is_computed = re.fullmatch(r"\$\{\w+\}", "".join(command.arguments))
        if command.name != "add_subdirectory" or not is_computed or file in self.computed:
            return
        self.computed.add(file)
        parent = posixpath.dirname(file)
        for option in tuple(self.facts.options):
            name = posixpath.join(parent, option.lower().replace("_", "-"), TOP)
            if name in self.files.names:
                yield name, option


def _conditions(above: _Conditions, around: list[_If]) -> _Conditions:
    if len(around) > _DEEPEST:
        return _Conditions((*above.options, "!"), None)
    return _Conditions(
        (*above.options, *(option for each in around for option in each.needed)),
        functools.reduce(both, (each.branches.here for each in around), above.versions),
    )


def _needed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that must be on for a condition; ("!",) if no option decides it, or too many do."""
    if len(words) > _DEEPEST:
        return ("!",)
    if "OR" in words or "NOT" in words:
        alone = [word for word in words if re.search(r"CUDA|GPU", word) and re.fullmatch(r"\w+", word)]
        return () if alone and "NOT" not in words else ("!",)
    return tuple(word for word in words if re.fullmatch(_NAME, word) and word not in {"AND", "ON"})


def _asked(command: Command) -> str:
    """Return the requested version of a find_package; "" for none."""
    version = command.arguments[1] if len(command.arguments) > 1 else ""
    return version if command.name == "find_package" and re.fullmatch(_VERSION, version) else ""


def _is_cuda(command: Command) -> bool:
    words = command.arguments
    if command.name == "enable_language":
        return "CUDA" in words
    if command.name == "project":
        return "CUDA" in words[1:]
    return command.name == "find_package" and bool(words) and words[0] in {"CUDAToolkit", "CUDA"}


def _targets(word: str) -> Iterator[str]:
    for match in re.finditer(r"\b(?:CUDA::(\w+)|(NCCL|CUDNN|cudnn|cuTENSOR)::\w+)", word):
        yield match[1] or match[2].lower()


def _download(command: Command) -> str:
    """Return the URL or repository that a command fetches; "" for none."""
    words = command.arguments
    if command.name == "file" and words[:1] == ("DOWNLOAD",):
        return words[1] if len(words) > 1 else ""
    if (
        command.name in _FETCHES or "GIT_REPOSITORY" in words
    ):  # also functions around these, such as rapids_cpm_find
        places = [word for word in words if re.search(r"://|^gh:|^[\w.-]+/[\w.-]+(#|@)", word)]
        repository = words.index("GITHUB_REPOSITORY") + 1 if "GITHUB_REPOSITORY" in words else len(words)
        return next(iter((*places, *words[repository : repository + 1])), "")
    return ""
