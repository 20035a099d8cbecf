"""The entry points of a wheel: `entry_points.txt`, as PyPI and as pip reads it.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

import configparser
import re
from collections.abc import Collection
from importlib.metadata import Distribution
from pathlib import Path
from typing import NamedTuple

from gpuforge.errors import MalformedError

FILE = "entry_points.txt"
_GAP = re.compile(
    r"(?<=\S)[^\S\n]+"
)  # between words of a line: the parser's pattern is quadratic in its length


class EntryPoint(NamedTuple):
    """One entry: a command is `demo = demo.cli:main` in the group "console_scripts"."""

    name: str
    target: str


class _Parser(configparser.RawConfigParser):
    optionxform = staticmethod(str)  # type: ignore[assignment]  # names keep their case


class _Installed(Distribution):
    """A distribution with only entry points, which pip reads by this class of the standard library."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == FILE else None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


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
    try:
        found = _Installed(text.decode()).entry_points
    except (UnicodeDecodeError, TypeError) as error:  # TypeError for an entry without "="
        raise MalformedError.of("pip cannot read its lines") from error
    return [EntryPoint(p.name, p.value) for p in found if groups is None or p.group in groups]
