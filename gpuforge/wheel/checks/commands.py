"""The entry points of a wheel, as PyPI and as pip reads `entry_points.txt`, and what both refuse in it.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

import configparser
import posixpath
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from gpuforge.errors import MalformedError
from gpuforge.wheel.checks import Refusal

FILE = "entry_points.txt"
RESERVED = re.compile(
    r"(?:python|pythonw|python3|graalpy|pypy[23]?|python3\.\d{1,3}t?|pythonw3\.\d{1,3}t)(?:\.py)?"
)
"""Names of commands that would replace Python's; uv refuses them, too (crates/uv-install-wheel)."""
# between words of a line: the parser's pattern is quadratic in its length
_GAP = re.compile(r"(?<=\S)[^\S\n]+")


class EntryPoint(NamedTuple):
    """One entry: a command is `demo = demo.cli:main` in the group "console_scripts"."""

    name: str
    target: str


class _Parser(configparser.RawConfigParser):
    optionxform = staticmethod(str)  # type: ignore[assignment]  # names keep their case


def of_pypi(text: bytes, groups: Collection[str]) -> list[EntryPoint]:
    """Return the entries of these groups as PyPI reads them; raises MalformedError for a text that it refuses."""
    parser = _Parser(delimiters=("=",))
    try:
        parser.read_string(_GAP.sub(" ", text.decode()))
    except (UnicodeDecodeError, configparser.Error) as error:
        raise MalformedError.of(str(error).splitlines()[0]) from error
    present = [group for group in groups if parser.has_section(group)]
    return [EntryPoint(*pair) for group in present for pair in parser[group].items()]


def of_pip(text: bytes, groups: Collection[str] | None = None) -> list[EntryPoint]:
    """Return the entries of these groups, or of all, as pip reads them, which accepts more sections and line ends.

    Raises MalformedError for a text that it refuses.
    """
    from importlib.metadata import Distribution  # noqa: PLC0415  20 modules, and few wheels have commands

    class Installed(Distribution):
        """A distribution with only entry points, which pip reads by this class of the standard library."""

        def read_text(self, filename: str) -> str | None:
            return text.decode() if filename == FILE else None

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    try:
        found = Installed().entry_points
    except (UnicodeDecodeError, TypeError) as error:  # TypeError for an entry without "="
        raise MalformedError.of("pip cannot read its lines") from error
    return [EntryPoint(p.name, p.value) for p in found if groups is None or p.group in groups]


_REFUSED_BY_PIP = {"script folder", "script path", "script target"}
_GROUPS = ("console_scripts", "gui_scripts")
_NAME = re.compile(r"[\w.-]+")
_TARGET = re.compile(r"[\w.-]+\s*:\s*[\w.-]+(?:\s*\[[^\[\]]*\])?\s*")


def check(text: bytes) -> Iterator[Refusal]:
    """Yield the problems of the entry points in this text."""
    try:
        bad = [(kind, *each) for each in of_pypi(text, _GROUPS) if (kind := _kind(*each))]
    except MalformedError as error:
        yield Refusal("entry points", FILE, {"problem": error.diagnostics[0].message})
        return
    if not bad:
        try:
            seen = of_pip(text, _GROUPS)
        except MalformedError:
            yield Refusal("entry points for pip", FILE)
            return
        bad = [("script for pip", *each) for each in seen if _kind(*each) in _REFUSED_BY_PIP]
    for kind, name, target in bad:
        yield Refusal(kind, FILE, {"name": name, "target": " ".join(target.split())})


def _kind(name: str, target: str) -> str:
    place = posixpath.normpath(posixpath.join("/bin", name))
    if name in {".", ".."}:
        return "script folder"
    if not place.startswith("/bin/"):
        return "script path"
    if not _NAME.fullmatch(name):
        return "script name"
    if ":" not in target or "\n" in target:
        return "script target"
    if not _TARGET.fullmatch(target):
        return "script form"
    return "script reserved" if RESERVED.fullmatch(name.lower()) else ""
