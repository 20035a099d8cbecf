"""Reads a project's CMake files as a build by gpuforge would, and chooses options for CUDA; CMake is not run."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpuforge.cuda.targets import Target
from gpuforge.cuda.version import numbers_of
from gpuforge.project.cmake_language import Command, Variables, commands, names_in
from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.sources import NATIVE, is_lacking
from gpuforge.runtime.arch import Arch

MOST_ARCHS = 100  # in one list
GENCODE = r"arch=(\w+),code=\[?([\w,]+)\]?"
_ARCH = r"\d{2,3}[af]?(?:-real|-virtual)?"
_ALL_ARCHS = "CMAKE_CUDA_ARCHITECTURES"  # for each target without CUDA_ARCHITECTURES
# Variables for the architectures of GPUs, except CMake's and torch's, which gpuforge sets.
OWN_ARCHS = r"(?!CMAKE_|TORCH_)\w*(CUDA|GPU|NVCC|SM)\w*ARCH\w*|\w*(COMPUTE_CAPABILIT|GENCODE|GPU_TARGETS)\w*"


def set_by(command: Command) -> tuple[str, ...]:
    """Return the architectures that a command sets."""
    words = command.arguments
    if command.name == "set" and words[:1] == (_ALL_ARCHS,) and "CACHE" not in words:
        return words[1:]
    if command.name == "list" and words[:2] == ("APPEND", _ALL_ARCHS):
        return words[2:]
    if "CUDA_ARCHITECTURES" in words and command.name in {"set_target_properties", "set_property"}:
        return words[words.index("CUDA_ARCHITECTURES") + 1 :][: 1 if "PROPERTIES" in words else None]
    return ()


def listed(text: str) -> list[Target]:
    """Return the architectures of a list; empty if it has anything else."""
    items = [part for part in re.split(r"[;\s]+", text) if part]
    if len(items) > MOST_ARCHS or not all(re.fullmatch(_ARCH, item) for item in items):
        return []
    parts = [item.partition("-") for item in dict.fromkeys(items)]  # "90" is machine code and PTX
    return [Target(Arch.parse(number), kind != "virtual", kind != "real") for number, _, kind in parts]


def of_gencode(codes: str) -> list[Target]:
    """Return the architectures of `code=…` for nvcc; empty if one is unknown."""
    try:
        parsed = [(code, Arch.parse(code)) for code in codes.split(",")]
    except ValueError:
        return []
    return [Target(each, code == each.sm, code != each.sm) for code, each in parsed]


@dataclass(frozen=True, slots=True)
class Use:
    """A use of CUDA: of its language, or of the toolkit alone; `sure` if no unknown condition is around it."""

    where: Where
    sure: bool
    language: bool
    version: str = ""  # of CUDA, from find_package(CUDAToolkit 12.9)
    required: bool = True
    perhaps: bool = False  # a find_package without REQUIRED, which other code may only take a hint from


@dataclass(frozen=True, slots=True)
class Package:
    """A find_package that may run."""

    name: str
    where: Where
    required: bool
    sure: bool


@dataclass(frozen=True, slots=True)
class ThisCpu:
    """Code that is compiled for the CPU of the machine that builds, with the options that lead there."""

    where: Where
    options: tuple[str, ...]
    native: bool  # by -march=native, else by flags that a check of the CPU chooses


@dataclass(slots=True)
class CMake:
    """What the top file and all files that it includes do in one build."""

    options: dict[str, Seen] = field(default_factory=dict)  # the value of each
    blocked: dict[str, None] = field(default_factory=dict)  # variables for which a branch was not taken
    # those that must be equal to "CUDA" for one, so spelt
    chosen_by: dict[str, str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)  # the arguments of all commands
    uses: list[Use] = field(default_factory=list)  # of CUDA
    packages: list[Package] = field(default_factory=list)
    targets: list[Seen] = field(default_factory=list)  # "cufft" of CUDA::cufft, "nccl" of NCCL::NCCL
    static: list[Seen] = field(default_factory=list)  # "nccl_static"
    archs: dict[Target, Where] = field(default_factory=dict)  # that the files set themselves
    own_archs: list[Seen] = field(default_factory=list)  # variables that they are read from
    computed_archs: Where | None = None  # flags for architectures that only a build knows
    downloads: list[Seen] = field(default_factory=list)
    this_cpu: list[ThisCpu] = field(default_factory=list)
    minimum: Seen | None = None  # the oldest cmake_minimum_required

    @property
    def cuda(self) -> int:
        """How certainly CUDA is used: 4 its language, 3 the toolkit, 2 and 1 perhaps, 0 not."""
        return max(((3 + use.language if use.sure else 1 + use.language) for use in self.uses), default=0)


TOP = "CMakeLists.txt"
_DEEPEST = 20  # files that include each other, and conditions around a command
_MOST = 2000  # files
_MOST_COMMANDS = 60_000  # of one reading
_SOURCE = (
    r"(?:\$\{(?:CMAKE_CURRENT_LIST_DIR|CMAKE_CURRENT_SOURCE_DIR|PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/)?"
)
_FETCHES = frozenset({"fetchcontent_declare", "externalproject_add", "cpmaddpackage", "cpmfindpackage"})
_CUDA_COMMANDS = frozenset({"cuda_add_library", "cuda_add_executable", "cuda_compile", "cuda_wrap_srcs"})
_VERSION = r"\d{1,9}(\.\d{1,9}){0,3}"
_STATIC = r"(?:CUDA::|lib)?(\w+_static)(?:\.a)?"
_GENCODES = re.compile(r"arch=[^\s;,\"]{1,60},code=[^\s;\"]{1,200}")  # with variables in them
# Flags that compile for the CPU that builds, and those for one CPU or another.
_THIS_CPU = rf"{NATIVE}|-xHost\b"
_ONE_CPU = r"-m(avx|sse|fma|bmi|f16c)|-march="
# Checks of CMake whose result depends on the CPU that builds.
_RUNS = frozenset(
    {"check_c_source_runs", "check_cxx_source_runs", "try_run", "cmake_host_system_information"}
)
_OF_CPU = r"(?i)avx|sse|fma|bmi|neon|simd|f16c|cpuid|intrin"
# Commands that set variables to results which only a build knows.
_RESULTS = (
    r"check_\w+|try_\w+|find_(program|library|path|file)|string|list|file|math|get_\w+|execute_process|"
    r"separate_arguments|cmake_(host|parse|path)\w*|pkg_\w+"
)


class Source:
    """The CMake files of a project."""

    def __init__(self, files: Files, folder: str = "") -> None:
        """`folder` is that of the top file."""
        self.files = files
        self.top = posixpath.normpath(posixpath.join(folder, TOP))
        self.parsed: dict[str, list[Command]] = {}

    def read(self, defined: Mapping[str, str | None] | None = None, toolkit: str = "13.0") -> CMake:
        """Read them as a build does that defines these variables of the cache; None is an unknown value."""
        reader = _Reader(self, defined or {}, toolkit)
        reader.file(self.top, _Under())
        if text := reader.variables.fixed.get(_ALL_ARCHS):
            reader.all_archs(text, Where("pyproject.toml"))
        return reader.facts

    def commands(self, name: str) -> list[Command]:
        """Return the commands of a file."""
        if name not in self.parsed:
            self.parsed[name] = list(commands(self.files.text(name)))
        return self.parsed[name]

    @cached_property
    def folders(self) -> frozenset[str]:
        """All folders with files."""
        return frozenset(
            name[: match.start()] for name in self.files.names for match in re.finditer("/", name)
        )

    @cached_property
    def modules(self) -> dict[str, str]:
        """The files by their last name."""
        return {posixpath.basename(name): name for name in sorted(self.files.names, reverse=True)}


@dataclass(frozen=True, slots=True)
class _Under:
    """The circumstances of a command: `sure` if it runs, `known` if at most a call decides that."""

    sure: bool = True
    known: bool = True
    names: tuple[str, ...] = ()  # of the conditions around it


@dataclass(slots=True)
class _If:
    """An `if` that is being read."""

    taken: bool | None = False  # whether an earlier branch was
    here: bool | None = False  # whether this one is
    names: tuple[str, ...] = ()  # of the conditions so far
    call: bool = False  # it is the body of a function


class _Reader:
    def __init__(self, source: Source, defined: Mapping[str, str | None], toolkit: str) -> None:
        self.source = source
        self.variables = Variables(defined, toolkit, self._exists)
        self.folder = ""  # of the file that is being read
        self.facts = CMake()
        self.seen: set[str] = set()
        self.computed: set[str] = set()  # files that add a folder from a variable
        self.of_cpu: set[str] = set()  # variables that depend on the CPU that builds
        self.depth = self.count = 0

    def file(self, name: str, above: _Under) -> None:
        """Read one file, which is included in these circumstances."""
        if name in self.seen or len(self.seen) >= _MOST or self.depth >= _DEEPEST:
            return
        self.seen.add(name)
        self.depth += 1
        outer = self.folder, self.variables.is_top
        self.folder = posixpath.dirname(name)
        around: list[_If] = []
        for command in self.source.commands(name):
            self.count += 1
            if self.count > _MOST_COMMANDS:
                break
            self._own_archs(command, Where(name, command.line))
            if not self._branch(command, around) and all(each.here is not False for each in around):
                under = _under(above, around)
                if command.name == "return" and under.sure:
                    break
                self._run(name, command, under)
        self.depth -= 1
        self.folder, self.variables.is_top = outer

    def _exists(self, path: str) -> bool | None:
        """Return whether a path is in the project; None for one outside, or that a build may make."""
        below = re.sub(_SOURCE, "", path, count=1)
        if below == path or "$" in below:
            return None
        name = posixpath.normpath(posixpath.join(self.folder, below))
        return name in self.source.files.names or name in self.source.folders

    def _branch(self, command: Command, around: list[_If]) -> bool:
        """Follow a command that begins or ends a branch; return whether it is one."""
        if command.name in {"if", "while", "foreach", "function", "macro"}:
            around.append(_If())
        if command.name == "foreach":
            around[-1].here = True
            self._loop(command.arguments)
        elif command.name in {"function", "macro"}:
            around[-1].here, around[-1].call = None, True
        elif command.name in {"if", "elseif", "else", "while"} and around:
            inner, skipped = around[-1], any(each.here is False for each in around[:-1])
            words = command.arguments if command.name != "else" else ()
            holds = None if skipped else self.variables.holds(words) if words else command.name == "else"
            inner.names = (*inner.names, *names_in(words))[:_DEEPEST]
            inner.here = False if inner.taken or holds is False else None if inner.taken is None else holds
            inner.taken = True if inner.taken or holds else None if None in {inner.taken, holds} else False
            if inner.here is False and not skipped:
                self.facts.blocked.update(dict.fromkeys(inner.names))
                for one, how, other in zip(words, words[1:], words[2:], strict=False):
                    if how == "STREQUAL" and other.upper() == "CUDA":
                        self.facts.chosen_by[re.sub(r"\W", "", one)] = other
        elif command.name in {"endif", "endwhile", "endforeach", "endfunction", "endmacro"}:
            del around[-1:]
        else:
            return False
        return True

    def _loop(self, words: tuple[str, ...]) -> None:
        items: list[str | None] = [] if "RANGE" not in words else [None]
        for word in words[1:]:
            texts = self.variables.of(word) if "LISTS" in words else self.variables.expand(word)
            for text in texts if word not in {"IN", "LISTS", "ITEMS"} else ():
                items += [None] if text is None else text.split(";")
        if words:
            self.variables.set(words[0], tuple(dict.fromkeys(items)), sure=True)

    def _run(self, file: str, command: Command, under: _Under) -> None:
        """Note the facts in one command, and what it sets."""
        where = Where(file, command.line)
        words = command.arguments
        facts = self.facts
        facts.words.update(words)
        if command.name == "project":
            self.variables.is_top = self.folder == posixpath.dirname(self.source.top)
        if words:
            self._assign(command, where, under)
        if use := self._use(command, where, under):
            facts.uses.append(use)
        for word in words:
            if under.sure and "::" in word:
                facts.targets += [Seen(name, where) for name in _targets(word)]
            is_static = "_static" in word and "FindCUDA" not in file  # which defines all targets
            if is_static and (match := re.fullmatch(_STATIC, word)):
                facts.static.append(Seen(match[1], where))
        if any(word.endswith("CUDA_RUNTIME_LIBRARY") for word in words) and "Static" in words:
            facts.static.append(Seen("cudart_static", where))
        self._archs(command, where, under)
        self._cpu(command, where, under)
        if what := _download(command):
            facts.downloads.append(Seen(what, where))
        for name in (*self._leads_to(file, command), *self._folders_of_options(file, command)):
            self.file(name, under)

    def _assign(self, command: Command, where: Where, under: _Under) -> None:
        """Follow a command that sets variables, or may do so."""
        words, name = command.arguments, command.name
        if name in {"option", "cmake_dependent_option"}:
            self._option(words, where, under)
        elif name == "set":
            self._set(words, where, under)
        elif name == "list" and len(words) > 2 and words[0] in {"APPEND", "PREPEND"}:
            self.variables.set(words[1], self.variables.listed(words[2:]), sure=False)
        elif name == "get_filename_component" and words[2:3] in {("ABSOLUTE",), ("REALPATH",)}:
            self.variables.set(words[0], self.variables.expand(words[1]), sure=under.sure)
        elif name == "find_package":
            self._package(words, where, under)
        elif name == "cmake_minimum_required":
            self._minimum(words, where)
        elif name in {"add_library", "add_executable", "add_custom_target"}:
            self.variables.targets.add(words[0])
        elif re.fullmatch(_RESULTS, name):
            self._results(command, under)
        else:
            self.variables.mentioned.update(words)

    def _option(self, words: tuple[str, ...], where: Where, under: _Under) -> None:
        default = self.variables.expand(words[2]) if len(words) > 2 else ("OFF",)
        self._of_cpu(words[0], words[2:], under)
        self.variables.set_cached(words[0], default, sure=under.sure)
        self._declared(words[0], where)

    def _of_cpu(self, name: str, words: tuple[str, ...], under: _Under) -> None:
        if not self.of_cpu.isdisjoint((*under.names, *names_in(words))):
            self.of_cpu.add(name)

    def _declared(self, name: str, where: Where) -> None:
        """Note the value of an option, which may be another one after each command."""
        values = self.variables.of(name)
        known = "ON" if self.variables.holds((name,)) else "OFF" if None not in values else ""
        first = self.facts.options.get(name)
        self.facts.options[name] = Seen(known, first.where if first else where)

    def _set(self, words: tuple[str, ...], where: Where, under: _Under) -> None:
        name = words[0]
        cached = words.index("CACHE") if "CACHE" in words else 0
        values = self.variables.listed([word for word in words[1 : cached or None] if word != "PARENT_SCOPE"])
        self._of_cpu(name, words[1:], under)
        if not cached:
            self.variables.set(name, values, sure=under.sure)
            return
        self.variables.set_cached(name, values, sure=under.sure)
        if words[cached + 1 : cached + 2] == ("BOOL",):
            self._declared(name, where)
        elif re.fullmatch(OWN_ARCHS, name):
            self.facts.own_archs.append(Seen(name, where))

    def _results(self, command: Command, under: _Under) -> None:
        """Forget the values of variables that a command sets to a result."""
        words, name = command.arguments, command.name
        changed = [word for word in words if word.isidentifier()]
        # try_compile(worked OUT FOLDER NAME) builds a project, which may run programs
        project = name == "try_compile" and "SOURCES" not in words and len(words) > 3
        runs = name in _RUNS or (project and "." not in posixpath.basename(words[2]))
        if runs and any(re.search(_OF_CPU, word) for word in words):
            self.of_cpu.update(changed)
        for each in changed:
            self.variables.set(each, (None,), sure=under.sure)

    def _use(self, command: Command, where: Where, under: _Under) -> Use | None:
        if command.name in _CUDA_COMMANDS:
            return Use(where, under.sure, language=True)
        if command.name not in {"enable_language", "project", "find_package"}:
            return None
        texts = [text for word in command.arguments for text in self.variables.expand(word) if text]
        words = [part for text in texts for part in text.split(";")]
        if command.name != "find_package":
            cuda = "CUDA" in words[command.name == "project" :]
            return Use(where, under.sure, language=True) if cuda else None
        if words and words[0] in {"CUDAToolkit", "CUDA"}:
            version = words[1] if len(words) > 1 and re.fullmatch(_VERSION, words[1]) else ""
            required = "REQUIRED" in words
            return Use(where, under.sure, words[0] == "CUDA", version, required, perhaps=not required)
        return None

    def _package(self, words: tuple[str, ...], where: Where, under: _Under) -> None:
        required = "REQUIRED" in words
        self.facts.packages.append(Package(words[0], where, required, under.sure))
        self.variables.prefixes |= {f"{words[0]}_", f"{words[0].upper()}_"}
        if "NumPy" in words[1:]:  # a component of CMake's own modules for Python
            self.facts.packages.append(Package("NumPy", where, required=True, sure=under.sure))
        found = "1" if required or words[0] in {"CUDAToolkit", "CUDA"} else None
        for name in (words[0], words[0].upper()):
            self.variables.set(f"{name}_FOUND", (found,), sure=under.sure)

    def _minimum(self, words: tuple[str, ...], where: Where) -> None:
        version = words[1] if len(words) > 1 and words[0] == "VERSION" else ""
        newest = version.rpartition("...")[2]  # of a range, whose policies it takes
        if not re.fullmatch(_VERSION, newest):
            return
        if self.facts.minimum is None or numbers_of(newest) < numbers_of(self.facts.minimum.text):
            self.facts.minimum = Seen(newest, where)

    def _archs(self, command: Command, where: Where, under: _Under) -> None:
        """Note the architectures that a command sets, whatever gpuforge defines."""
        for flag in (
            flag for word in command.arguments if "arch=" in word for flag in _GENCODES.findall(word)
        ):
            for text in self.variables.expand(flag):
                match = re.match(GENCODE, text or "")
                if match and under.known:
                    self._fix(of_gencode(match[2]), where)
                else:
                    self.facts.computed_archs = self.facts.computed_archs or where
        texts = self.variables.listed(values) if (values := set_by(command)) else ()
        if under.known and len(texts) == 1 and texts[0] is not None:
            self.all_archs(texts[0], where)

    def all_archs(self, text: str, where: Where) -> None:
        """Note a list of architectures, or CMake's words for one."""
        self._fix(listed(text), where)
        if re.fullmatch("all|all-major|native", text):
            self.facts.computed_archs = self.facts.computed_archs or where

    def _own_archs(self, command: Command, where: Where) -> None:
        """Note the environment variables that architectures are read from, also where that is not the default."""
        words = command.arguments
        is_own = command.name == "set" and re.fullmatch(OWN_ARCHS, words[0] if words else "")
        for word in words[1:] if is_own else set_by(command):
            if match := re.fullmatch(r"\$ENV\{(\w+)\}", word):
                self.facts.own_archs.append(Seen(match[1], where))

    def _fix(self, targets: list[Target], where: Where) -> None:
        for each in targets[:MOST_ARCHS]:
            self.facts.archs.setdefault(each, where)

    def _cpu(self, command: Command, where: Where, under: _Under) -> None:
        """Note flags for the CPU that builds."""
        if command.name in {"option", "message"} or "BOOL" in command.arguments or command.name in _RUNS:
            return
        tainted = [name for name in under.names if name in self.of_cpu]
        flags = rf"{_THIS_CPU}|{_ONE_CPU}" if tainted else _THIS_CPU
        if any(re.search(flags, word) for word in command.arguments) and not command.name.startswith(
            "check_"
        ):
            named = [name for name in under.names if re.search(r"NATIVE|MARCH", name)]
            options = [name for name in (*tainted, *named) if name in self.facts.options]
            native = any(re.search(NATIVE, word) for word in command.arguments)
            self.facts.this_cpu.append(ThisCpu(where, tuple(options), native))

    def _leads_to(self, file: str, command: Command) -> Iterator[str]:
        """Yield the files that a command reads: of a folder, a module, or a path."""
        modules = self.source.modules
        if command.name == "find_package" and command.arguments:
            yield from filter(None, [modules.get(f"Find{command.arguments[0]}.cmake")])
        if command.name not in {"add_subdirectory", "include"} or not command.arguments:
            return
        folders = dict.fromkeys((posixpath.dirname(file), posixpath.dirname(self.source.top)))
        names: list[str] = []
        for value in self.variables.expand(command.arguments[0]):
            path = re.sub(_SOURCE, "", value or "", count=1)
            if not path:
                continue
            if command.name == "add_subdirectory":
                names += [posixpath.join(folder, path, TOP) for folder in folders]
            else:
                module = path if path.endswith(".cmake") else f"{path}.cmake"
                names += [posixpath.join(folder, each) for folder in folders for each in (path, module)]
                names += [modules[module]] if module in modules else []
        yield from [name for name in map(posixpath.normpath, names) if name in self.source.files.names][:1]

    def _folders_of_options(self, file: str, command: Command) -> Iterator[str]:
        """Yield the folders named like options that are on, for a command whose folder is a variable."""
        is_computed = re.fullmatch(r"\$\{\w+\}", "".join(command.arguments))
        if command.name != "add_subdirectory" or not is_computed or file in self.computed:
            return
        if any(self.variables.expand(command.arguments[0])):
            return  # its name is known
        self.computed.add(file)
        parent = posixpath.dirname(file)
        for option in tuple(self.facts.options):
            name = posixpath.join(parent, option.lower().replace("_", "-"), TOP)
            if name in self.source.files.names:
                if self.variables.holds((option,)) is False:
                    self.facts.blocked[option] = None
                else:
                    yield name


def _under(above: _Under, around: list[_If]) -> _Under:
    unknown = [each for each in around if each.here is None]
    return _Under(
        above.sure and not unknown,
        above.known and all(each.call for each in unknown) and len(around) <= _DEEPEST,
        (*above.names, *(name for each in around for name in each.names))[: _DEEPEST * 5],
    )


def _targets(word: str) -> Iterator[str]:
    for match in re.finditer(r"\b(?:CUDA::(\w+)|(NCCL|CUDNN|cudnn|cuTENSOR)::\w+)", word):
        yield match[1] or match[2].lower()


def _download(command: Command) -> str:
    """Return the URL or repository that a command fetches; "" for none."""
    words = command.arguments
    if command.name == "file" and words[:1] == ("DOWNLOAD",):
        return words[1] if len(words) > 1 else ""
    # also functions around these, such as rapids_cpm_find
    if command.name in _FETCHES or "GIT_REPOSITORY" in words:
        places = [word for word in words if re.search(r"://|^gh:|^[\w.-]+/[\w.-]+(#|@)", word)]
        repository = words.index("GITHUB_REPOSITORY") + 1 if "GITHUB_REPOSITORY" in words else len(words)
        return next(iter((*places, *words[repository : repository + 1])), "")
    return ""


_ASKS = r"CUDA|GPU"  # in the names of options
_ASIDE = r"TEST|EXAMPLE|BENCH|DOC"
_SHARED = r"(?i)(?!CMAKE_)\w*(SHARED|DYNAMIC)\w*"  # variables by which a project selects shared libraries
_MOST_READINGS = 30  # for one purpose
_LANGUAGE, _TOOLKIT = 4, 3  # of `CMake.cuda`


@dataclass(frozen=True, slots=True)
class Setting:
    """An option to define: why ("cmake-option", "static-unless", "native-option"), and the places that say so."""

    value: str
    kind: str
    where: tuple[Where, ...]
    library: str = ""  # the static one that the shared one replaces


@dataclass(slots=True)
class Chosen:
    """What the files do with the options that were chosen."""

    facts: CMake
    settings: dict[str, Setting] = field(default_factory=dict)
    defined: dict[str, str | None] = field(default_factory=dict)  # the project's own settings, too


def choose(source: Source, defined: Mapping[str, str | None]) -> Chosen:
    """Read the files with few changes of their options, so that the build uses CUDA and its wheel works elsewhere."""
    choice = _Choice(source, Chosen(source.read(defined), defined=dict(defined)))
    choice.use_cuda()
    if choice.chosen.facts.cuda:
        choice.take_shared()
    choice.leave_this_cpu()
    return choice.chosen


class _Choice:
    def __init__(self, source: Source, chosen: Chosen) -> None:
        self.source, self.chosen, self.readings = source, chosen, 1

    def _with(self, name: str, value: str) -> CMake:
        """Read with one more option; after too many readings, without it."""
        self.readings += 1
        if self.readings > _MOST_READINGS:
            return self.chosen.facts
        return self.source.read({**self.chosen.defined, name: value})

    def _take(self, name: str, setting: Setting, facts: CMake) -> None:
        declared = self.chosen.facts.options.get(name)
        where = tuple(dict.fromkeys((*([declared.where] if declared else ()), *setting.where)))
        self.chosen.settings[name] = Setting(setting.value, setting.kind, where, setting.library)
        self.chosen.defined[name] = setting.value
        self.chosen.facts = facts

    def _flips(self) -> Iterator[tuple[str, str]]:
        """Yield the options for which a branch is not read, with the opposite of their value.

        Those named for CUDA come first, and of these the short names, which further options of theirs begin with.
        """
        facts = self.chosen.facts
        names = [name for name in facts.blocked if name not in self.chosen.defined]
        for name in sorted(names, key=lambda name: (not re.search(_ASKS, name), len(name))):
            if name in facts.options and not re.search(_ASIDE, name):
                yield name, "OFF" if facts.options[name].text == "ON" else "ON"
        yield from ((name, text) for name, text in facts.chosen_by.items() if name in names)

    def use_cuda(self) -> None:
        """Change an option at a time until CUDA's language is used, if a change makes that more certain."""
        for _ in range(3):
            before = self.chosen.facts
            required = any(use.required for use in before.uses if use.sure)
            if before.cuda == _LANGUAGE or (before.cuda == _TOOLKIT and required):
                return
            best: tuple[str, str, CMake] | None = None
            for name, value in self._flips():
                if before.cuda and not re.search(_ASKS, f"{name} {value}"):
                    continue  # it is used without: what else upstream leaves off stays off
                facts = self._with(name, value)
                if facts.cuda > (best[2].cuda if best else before.cuda):
                    best = name, value, facts
                if facts.cuda == _LANGUAGE:
                    break
            if best is None:
                return
            name, value, facts = best
            first = max(facts.uses, key=lambda use: (use.sure, use.language))
            self._take(name, Setting(value, "cmake-option", (first.where,)), facts)

    def take_shared(self) -> None:
        """Turn on what selects a shared library instead of a static one that NVIDIA's wheels lack."""
        self.readings = 0
        for static in self.chosen.facts.static:
            if is_lacking(static.text) and static in self.chosen.facts.static:
                shared = static.text.removesuffix("_static")

                def is_better(facts: CMake, static: Seen = static, shared: str = shared) -> bool:
                    return static not in facts.static and shared in facts.words - self.chosen.facts.words

                names = [name for name in self.chosen.facts.blocked if re.fullmatch(_SHARED, name)]
                setting = Setting("ON", "static-unless", (static.where,), static.text)
                self._take_first(names, setting, is_better)

    def leave_this_cpu(self) -> None:
        """Turn off the options that compile for the CPU of the machine that builds."""
        self.readings = 0
        for place in self.chosen.facts.this_cpu:

            def is_better(facts: CMake, where: Where = place.where) -> bool:
                return where not in {each.where for each in facts.this_cpu}

            setting = Setting("OFF", "native-option", (place.where,))
            self._take_first(place.options, setting, is_better)

    def _take_first(self, names: Iterable[str], setting: Setting, is_better: Callable[[CMake], bool]) -> None:
        for name in names:
            if name not in self.chosen.defined and is_better(facts := self._with(name, setting.value)):
                self._take(name, setting, facts)
                return
