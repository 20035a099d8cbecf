"""The commands that `entry_points.txt` promises.

https://packaging.python.org/en/latest/specifications/entry-points/; uv's reserved names: crates/uv-install-wheel.
"""

import configparser
import posixpath
import re
from collections.abc import Iterator

from gpuforge.wheel.checks.refusal import Refusal

FILE = "entry_points.txt"
_GROUPS = ("console_scripts", "gui_scripts")
_NAME = re.compile(r"[\w.-]+")
_TARGET = re.compile(r"[\w.-]+\s*:\s*[\w.-]+(?:\s*\[[^\[\]]*\])?\s*")
_RESERVED = re.compile(
    r"(?:python|pythonw|python3|graalpy|pypy[23]?|python3\.\d{1,3}t?|pythonw3\.\d{1,3}t)(?:\.py)?"
)


class _Parser(configparser.RawConfigParser):
    optionxform = staticmethod(str)  # type: ignore[assignment]  # names keep their case


def check(text: bytes) -> Iterator[Refusal]:
    """Yield what is wrong with the entry points in this text."""
    parser = _Parser(delimiters=("=",))
    try:
        parser.read_string(text.decode())
    except (UnicodeDecodeError, configparser.Error) as error:
        yield Refusal("entry points", FILE, str(error).splitlines()[0])
        return
    for group in _GROUPS:
        for name, target in parser[group].items() if parser.has_section(group) else ():
            kind = _kind(name, target)
            if kind:
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
    return "script reserved" if _RESERVED.fullmatch(name.lower()) else ""
