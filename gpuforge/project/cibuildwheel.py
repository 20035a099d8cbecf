"""Reads cibuildwheel's settings, in pyproject.toml and GitHub's workflows, and guesses keys from them."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement

from gpuforge.cpython import CPython
from gpuforge.cuda import libraries, sonames
from gpuforge.cuda.carriers import linked_frameworks
from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.guess import Guess, Note, Reason, because
from gpuforge.project.metadata import Pyproject

if TYPE_CHECKING:
    from gpuforge.project.facts import Project

_TABLE = ("tool", "cibuildwheel")
_VARIABLE = re.compile(r"(?P<indent>\s*)(?:- )?[\"']?CIBW_(?P<name>[A-Z0-9_]+)[\"']?\s*:\s*(?P<value>.*)")
_ELSEWHERE = r".*_(MACOS|WINDOWS|IOS|ANDROID|PYODIDE)"
# In the names of workflows for other systems, and for other GPUs.
_OTHERS = r"(?i)vulkan|metal|rocm|hip\b|musa|sycl|xpu|macos|windows|wasm|pyodide|android|\bios\b"
_MOST_NAMES = 200  # that braces in a pattern make

_BUILD, _SETTINGS, _ENV, _TEST = ("build",), ("build", "config-settings"), ("build", "env"), ("test",)
# Variables that gpuforge sets, or that only an installation of CUDA has a meaning for.
_OURS = (
    r"CC|CXX|CFLAGS|CUDACXX|CUDAHOSTCXX|CUDAARCHS|CUDA_(HOME|PATH|ROOT)|CUDAToolkit_ROOT|NVCC_\w+|PATH|LD_LIBRARY_PATH|"
    r"TORCH_CUDA_ARCH_LIST|CMAKE_CUDA_ARCHITECTURES|MAX_JOBS|CMAKE_BUILD_PARALLEL_LEVEL|(PIP|UV|CIBW|SCCACHE|CCACHE)_\w+"
)
_NOTES = {  # options that are asked about: the table, the kind of the reason, and its fact
    "before-all": (_BUILD, "before-all", "command"),
    "before-build": (_BUILD, "before-build", "command"),
    "environment-pass": (_ENV, "environment-pass", "names"),
    "test-command": (_TEST, "test-command", "command"),
    "repair-wheel-command": (("wheel",), "repair", "command"),
    "manylinux-x86_64-image": (("wheel",), "image", "image"),
}
_HANDLED = {*_NOTES, "build", "skip", "test-requires", "test-extras", "test-sources"}


@dataclass(frozen=True, slots=True)
class Wheelbuilder:
    """The settings of cibuildwheel for Linux, by their names in pyproject.toml."""

    options: Mapping[str, Seen]  # as one text: lists with spaces, commands with &&
    tables: Mapping[str, Mapping[str, Seen]]  # environment, config-settings …
    overrides: tuple[Seen, ...]  # "cp311-*: before-build"
    several: tuple[Seen, ...]  # that workflows set to several values: "archs = x86_64, aarch64"

    def words(self, name: str) -> list[str]:
        """Return the words of an option."""
        return split(self.options[name].text) if name in self.options else []

    def pythons(self, versions: Sequence[str]) -> tuple[str, ...]:
        """Return those versions that `build` and `skip` leave."""
        build, skip = self.words("build") or ["*"], self.words("skip")
        return tuple(
            version
            for version in versions
            if _matches(version, build)
            and not _matches(version, [each for each in skip if "musl" not in each])
        )


def read(files: Files, table: Pyproject) -> Wheelbuilder:
    """Read them; those of workflows come first, and those for Linux alone before others."""
    options: dict[str, Seen] = {}
    tables: dict[str, dict[str, Seen]] = {}
    several: list[Seen] = []
    for name, values in _of_workflows(files).items():
        seen = values[0]
        if len(texts := dict.fromkeys(each.text for each in values)) > 1:
            if name != "build":  # jobs that build for some Pythons each
                several.append(Seen(f"{name} = {', '.join(texts)}", seen.where))
                continue
            seen = Seen(" ".join(texts), seen.where)
        if name in {"environment", "config-settings", "test-environment"}:
            pairs = [word.partition("=") for word in split(seen.text)]
            tables.setdefault(name, {key: Seen(value, seen.where) for key, _, value in pairs if value})
        else:
            options.setdefault(name, seen)
    for keys in ((*_TABLE, "linux"), _TABLE):
        for name, value in table.table(*keys).items():
            where = table.where(*keys, name)
            if name in {"environment", "config-settings", "test-environment"}:
                own = tables.setdefault(name, {})
                for key, text in _pairs(value):
                    own.setdefault(key, Seen(text, where))
            elif name not in {"linux", "macos", "windows", "ios", "android", "pyodide", "overrides"}:
                options.setdefault(name, Seen(_text(name, value), where))
    overrides = [each for each in table.get(*_TABLE, "overrides") or () if isinstance(each, Mapping)]
    where = table.where(*_TABLE, "overrides")
    selected = (
        f"{_text('select', each.get('select', ''))}: {', '.join(key for key in each if key != 'select')}"
        for each in overrides
    )
    return Wheelbuilder(options, tables, tuple(Seen(text, where) for text in selected), tuple(several))


def split(text: str) -> list[str]:
    """Split a text as a shell does; at white space if its quotes do not fit."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _text(name: str, value: Any) -> str:
    if isinstance(value, list):
        sign = " && " if name.startswith("before") or name.endswith("command") else " "
        return sign.join(map(str, value))
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((key, text) for key, text in value.items() if isinstance(text, str))
    elif isinstance(value, str):
        for word in split(value):
            key, equals, text = word.partition("=")
            yield from [(key, text)] if equals else []


def _of_workflows(files: Files) -> dict[str, list[Seen]]:
    """Return the variables of workflows by option, those for Linux alone if there are any."""
    found: dict[str, list[Seen]] = {}
    for file in sorted(files.names):
        text = files.text(file) if re.fullmatch(r"\.github/workflows/[^/]+\.ya?ml", file) else ""
        if re.search(_OTHERS, file) or re.search(
            r"CIBW_PLATFORM\W+(pyodide|ios|android|macos|windows)", text
        ):
            continue
        lines = text.splitlines()
        for number, line in enumerate(lines):
            match = _VARIABLE.fullmatch(line)
            if match and not re.fullmatch(_ELSEWHERE, match["name"]):
                value = _value(match["value"], len(match["indent"]), lines[number + 1 :])
                found.setdefault(match["name"], []).append(Seen(value, Where(file, number + 1)))
    names = sorted(found, key=lambda name: name.endswith("_LINUX"))  # which replace the others
    return {
        name.removesuffix("_LINUX").lower().replace("_", "-").replace("x86-64", "x86_64"): found[name]
        for name in names
    }


def _value(text: str, indent: int, following: Sequence[str]) -> str:
    """Return the value of a line of YAML, or of the block that begins there."""
    if re.fullmatch(r"[|>][+-]?\s*(#.*)?", text):
        block = takewhile(lambda line: not line.strip() or len(line) - len(line.lstrip()) > indent, following)
        sign = " && " if text.startswith("|") else " "
        return sign.join(line.strip() for line in block if line.strip())
    if match := re.fullmatch(r"([\"'])(.*)\1\s*(#.*)?", text):
        return match[2]
    return re.sub(r"\s+#.*$", "", text).strip()


def _matches(version: str, patterns: Sequence[str]) -> bool:
    name = f"{CPython.parse(version).tag}-manylinux_x86_64"
    return any(fnmatch.fnmatchcase(name, each) for pattern in patterns for each in _expanded(pattern))


def _expanded(pattern: str) -> list[str]:
    """Return the patterns that a pattern with braces stands for: "cp3{10,11}-*"."""
    found = [pattern]
    while match := next(filter(None, (re.search(r"\{([^{}]*)\}", each) for each in found)), None):
        found = [each.replace(match[0], choice, 1) for each in found for choice in match[1].split(",")][
            :_MOST_NAMES
        ]
    return found


def requires(project: Project) -> Iterator[tuple[str, Reason]]:
    """Yield the requirements that `before-build` installs by pip."""
    before = project.wheelbuilder.options.get("before-build")
    for command in _commands(before) if before else ():
        for word in _packages(command):
            if before and Requirement(word).name not in {"pip", *project.backend.requires}:
                yield word, because("cibuildwheel-before-build", before.where)


def guesses(project: Project, taken: set[str]) -> Iterator[Guess | Note]:
    """Yield keys of [build], [wheel] and [test], and notes; `taken` are the settings and variables guessed before."""
    settings = project.wheelbuilder
    found = [*_settings(project, taken), *_environment(project, taken)]
    yield from (each for each in found if isinstance(each, Guess))
    yield from _tests(settings)
    excluded = tuple(dict.fromkeys(_excluded(settings)))
    if excluded:
        where = settings.options["repair-wheel-command"].where
        yield Guess(("wheel",), "exclude", excluded, (because("excluded", where),))
    yield from _notes(settings)
    left = {name: seen for name, seen in settings.options.items() if name not in _HANDLED}
    others = [f"{name} = {seen.text}" for name, seen in left.items()]
    others += [each for each in found if isinstance(each, str)]
    others += ["test-environment = …"] * ("test-environment" in settings.tables)
    others += [seen.text for seen in settings.several]
    others += [f"overrides for {seen.text}" for seen in settings.overrides]
    if others:
        places = [seen.where for seen in (*left.values(), *settings.overrides, *settings.several)]
        yield Note(_BUILD, because("cibuildwheel-left", *dict.fromkeys(places[:4]), what="; ".join(others)))


def _commands(seen: Seen) -> list[list[str]]:
    return [words for text in re.split(r"&&|;|\n", seen.text) if (words := split(text))]


def _packages(command: list[str]) -> list[str]:
    """Return the requirements that a call of pip installs; none if it installs anything else, or is no call of pip."""
    match = re.fullmatch(r"(?:\S*python\S* -m )?(?:uv )?pip3? install (.*)", " ".join(command))
    words = split(match[1]) if match else []
    if {"-r", "-c", "-e", "--requirement", "--constraint", "--editable", "--index-url", "-i"} & {*words}:
        return []
    named = [word for word in words if not word.startswith("-")]
    try:
        return named if all(Requirement(word).url is None for word in named) else []
    except InvalidRequirement:
        return []


def _settings(project: Project, taken: set[str]) -> Iterator[Guess | str]:
    """Yield config settings as keys, else as texts."""
    for key, seen in project.wheelbuilder.tables.get("config-settings", {}).items():
        name = key.rpartition(".")[2]
        if name in {"CMAKE_CUDA_ARCHITECTURES", "CIBUILDWHEEL"} or name in taken:
            continue
        if key.isprintable() and _is_plain(seen.text):
            yield Guess(_SETTINGS, key, seen.text, (because("cibuildwheel", seen.where),))
        else:
            yield f"config-settings {key} = {seen.text}"


def _environment(project: Project, taken: set[str]) -> Iterator[Guess | str]:
    """Yield environment variables as keys, else as texts."""
    skbuild = project.backend.name == "scikit-build-core"
    for name, seen in project.wheelbuilder.tables.get("environment", {}).items():
        reason = because("cibuildwheel", seen.where)
        if name in {"CMAKE_ARGS", "SKBUILD_CMAKE_ARGS"} and skbuild and "$" not in seen.text:
            for option, value in re.findall(r"-D(\w+)(?::\w+)?=([^\s;]+)", seen.text):
                if option != "CMAKE_CUDA_ARCHITECTURES" and option not in taken:
                    yield Guess(_SETTINGS, f"cmake.define.{option}", value, (reason,))
        elif not re.fullmatch(r"[A-Za-z_]\w*", name) or not _is_plain(seen.text):
            yield f"environment {name} = {seen.text}"
        elif re.fullmatch(_OURS, name) or name == "CMAKE_ARGS":
            yield f"environment {name} = {seen.text} (gpuforge sets it)"
        elif name not in taken:
            yield Guess(_ENV, name, seen.text, (reason,))


def _is_plain(text: str) -> bool:
    return text.isprintable() and not re.search(r"[{$]", text)


def _tests(settings: Wheelbuilder) -> Iterator[Guess]:
    for key, plain in (("requires", r"[^${}\s]+"), ("extras", r"[\w.-]+"), ("sources", r"[^${}\s]+")):
        option = settings.options.get(f"test-{key}")
        words = option.text.split() if option else []  # the quotes of a marker are part of a requirement
        if key == "extras":
            words = [word for text in words for word in text.split(",")]
        if option and words and all(re.fullmatch(plain, word) and ".." not in word for word in words):
            yield Guess(_TEST, key, tuple(words), (because("cibuildwheel", option.where),))


def _excluded(settings: Wheelbuilder) -> Iterator[str]:
    """Yield the libraries that auditwheel leaves out; not CUDA's and the frameworks', which gpuforge knows."""
    repair = settings.options.get("repair-wheel-command")
    for name in re.findall(r"--exclude[ =]([\w.*+-]+)", repair.text if repair else ""):
        of_framework = any(re.match(each.libraries, name) for each in linked_frameworks())
        ours = libraries.is_toolkit_file(name) or libraries.is_driver(name) or of_framework
        if not ours and re.fullmatch(r"lib[\w.+-]+\.so[\w.]*", name):
            yield sonames.bare(name)


def _notes(settings: Wheelbuilder) -> Iterator[Note]:
    """Yield the options that become questions."""
    texts = {name: seen.text for name, seen in settings.options.items() if name in _NOTES}
    if before := settings.options.get("before-build"):
        left = [" ".join(each) for each in _commands(before) if not _packages(each)]
        texts["before-build"] = " && ".join(left)
    texts["environment-pass"] = ", ".join(settings.words("environment-pass"))
    if "auditwheel" in texts.get("repair-wheel-command", ""):
        del texts["repair-wheel-command"]
    for name, (table, kind, fact) in _NOTES.items():
        if texts.get(name, "").strip():
            yield Note(table, because(kind, settings.options[name].where, **{fact: texts[name]}))
