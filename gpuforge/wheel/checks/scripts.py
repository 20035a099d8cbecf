"""Checks the commands in `entry_points.txt`.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

import posixpath
import re
from collections.abc import Iterator

from gpuforge.errors import MalformedError
from gpuforge.wheel.checks.destinations import RESERVED
from gpuforge.wheel.checks.refusal import Refusal
from gpuforge.wheel.entry_points import FILE, of_pip, of_pypi

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
