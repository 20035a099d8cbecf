"""Checks where installers put members: files that replace Python's or others, and files that Python runs by itself.

A member of the .data folder is installed to another place than its name:
https://packaging.python.org/en/latest/specifications/binary-distribution-format/#installing-a-wheel-distribution-1-0-py32-none-any-whl
"""

import re
from collections.abc import Callable, Iterable, Iterator

from gpuforge.wheel.archive import Member
from gpuforge.wheel.checks.refusal import Refusal

RESERVED = re.compile(
    r"(?:python|pythonw|python3|graalpy|pypy[23]?|python3\.\d{1,3}t?|pythonw3\.\d{1,3}t)(?:\.py)?"
)
"""Names of commands that would replace Python's; uv refuses them, too (crates/uv-install-wheel)."""

_LARGEST = 1 << 20  # bytes of a .pth file that is read
_MOVED = re.compile(r"[^/]+\.data/(purelib|platlib|scripts|data)/(.+)", re.DOTALL)
_SITE = re.compile(r"(?:lib(?:64)?/python3[^/]*|Lib)/site-packages/")
_OUTSIDE = "/"  # the beginning of a place outside of site-packages: a path in the environment
_EXECUTED = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])import[ \t]")
_IMPORTED = re.compile(r"(?:sitecustomize|usercustomize)(?:\.py|/__init__\.py)")


def check(members: Iterable[Member], read: Callable[[Member], bytes]) -> Iterator[Refusal]:
    """Yield the members whose place surprises users; `read` returns the bytes of one."""
    names = {member.name: member for member in members}
    moved = {name: _place(name) for name in names if ".data/" in name}
    places = {place: name for name, place in moved.items() if place}
    for name, place in moved.items():
        if place in names or places.get(place, name) != name:
            other = place if place in names else places[place]
            yield Refusal("installed twice", name, {"name": other})
        elif place.partition("/")[0].endswith(".dist-info"):
            yield Refusal("other package", name)
        elif place.startswith("/bin/") and RESERVED.fullmatch(place.removeprefix("/bin/").lower()):
            yield Refusal("interpreter", name)
    for name, member in names.items():
        if _is_run(moved.get(name, name), member, read):
            yield Refusal("start file", name)


def _place(name: str) -> str:
    """Return the place of a member of a .data folder: a path in site-packages, or one that begins with `/`."""
    found = _MOVED.fullmatch(name)
    if found is None:
        return ""
    scheme, path = found.groups()
    match scheme:
        case "purelib" | "platlib":
            return path
        case "scripts":
            return f"{_OUTSIDE}bin/{path}"
        case _:
            return path[inside.end() :] if (inside := _SITE.match(path)) else f"{_OUTSIDE}{path}"


def _is_run(place: str, member: Member, read: Callable[[Member], bytes]) -> bool:
    """Return whether Python runs lines of a file at each start (https://docs.python.org/3/library/site.html)."""
    if "customize" in place and _IMPORTED.fullmatch(place):
        return True
    if "/" in place or not place.endswith((".pth", ".start")):
        return False
    if place.endswith(".start") or member.size > _LARGEST:
        return True
    return _EXECUTED.search(read(member)) is not None
