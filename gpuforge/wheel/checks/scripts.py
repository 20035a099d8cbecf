"""The commands that `entry_points.txt` promises.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

import configparser
import posixpath
import re
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

from gpuforge.wheel.checks.destinations import RESERVED
from gpuforge.wheel.checks.refusal import Refusal

FILE = "entry_points.txt"
_REFUSED_BY_PIP = {"script folder", "script path", "script target"}
_GROUPS = ("console_scripts", "gui_scripts")
_NAME = re.compile(r"[\w.-]+")
_TARGET = re.compile(r"[\w.-]+\s*:\s*[\w.-]+(?:\s*\[[^\[\]]*\])?\s*")
_GAP = re.compile(
    r"(?<=\S)[^\S\n]+"
)  # between words of a line: the parser's pattern is quadratic in its length


class _Parser(configparser.RawConfigParser):
    optionxform = staticmethod(str)  # type: ignore[assignment]  # names keep their case


class _Installed(Distribution):
    """A distribution of nothing but entry points, which pip reads by this class of the standard library."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == FILE else None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def check(text: bytes) -> Iterator[Refusal]:
    """Yield what is wrong with the entry points in this text."""
    parser = _Parser(delimiters=("=",))
    try:
        written = text.decode()
        parser.read_string(_GAP.sub(" ", written))
    except (UnicodeDecodeError, configparser.Error) as error:
        yield Refusal("entry points", FILE, str(error).splitlines()[0])
        return
    found = [pair for group in _GROUPS if parser.has_section(group) for pair in parser[group].items()]
    bad = [(kind, name, target) for name, target in found if (kind := _kind(name, target))]
    if not bad:  # pip takes more for sections and for the ends of lines than this parser, PyPI's, does
        seen = ((p.name, p.value) for p in _Installed(written).entry_points if p.group in _GROUPS)
        bad = [
            ("script for pip", name, target)
            for name, target in seen
            if _kind(name, target) in _REFUSED_BY_PIP
        ]
    for kind, name, target in bad:
        yield Refusal(kind, FILE, f"{name} = {' '.join(target.split())}")


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
