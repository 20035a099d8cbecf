"""Reads cibuildwheel's settings: in pyproject.toml, and in the `CIBW_…` variables of GitHub's workflows."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from gpuforge.cpython import CPython
from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.metadata import Pyproject

_TABLE = ("tool", "cibuildwheel")
_VARIABLE = re.compile(r"(?P<indent>\s*)(?:- )?[\"']?CIBW_(?P<name>[A-Z0-9_]+)[\"']?\s*:\s*(?P<value>.*)")
_ELSEWHERE = r".*_(MACOS|WINDOWS|IOS|ANDROID|PYODIDE)"
# In the names of workflows for other systems, and for other GPUs.
_OTHERS = r"(?i)vulkan|metal|rocm|hip\b|musa|sycl|xpu|macos|windows|wasm|pyodide|android|\bios\b"
_MOST_NAMES = 200  # that braces in a pattern make


@dataclass(frozen=True, slots=True)
class Wheelbuilder:
    """The settings of cibuildwheel for Linux, by their names in pyproject.toml."""

    options: Mapping[str, Seen] = field(
        default_factory=dict
    )  # as one text: lists with spaces, commands with &&
    tables: Mapping[str, Mapping[str, Seen]] = field(default_factory=dict)  # environment, config-settings …
    overrides: tuple[Seen, ...] = ()  # "cp311-*: before-build"
    several: tuple[Seen, ...] = ()  # that workflows set to several values: "archs = x86_64, aarch64"

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
