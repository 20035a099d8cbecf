"""Reads the first directives of a PTX text: ISA and target (PTX ISA manual, section 11.1)."""

import re

from gpuforge.binary.facts import FatbinContainer, FatbinEntry
from gpuforge.binary.window import Budget, find, find_all
from gpuforge.runtime.arch import Arch

_VERSION = rb"(?:^|(?<=\0))[ \t]*\.version[ \t]+(\d{1,4}\.\d{1,4})\b"  # at the start of a line, or of a text in a file
_TARGET = rb"^[ \t]*\.target[ \t]+sm_(\d{2,4}[af]?)\b"
_TEXT = re.compile(_VERSION + rb"\s+" + _TARGET, re.MULTILINE)
_INDENTED = 64  # bytes before a directive, at most
VERSION = b".version"
HEADER = 1 << 9  # bytes in which the first directives are, in all compilers' output
# White space, and what is between the lines of a text in the strings of a source: quotation marks and escapes.
_SPACE, _NUMBER, _NAME = (
    re.compile(rb"(?:[\s\"']|\\+[nrt])*+"),
    re.compile(rb"\d{1,2}\.\d{1,2}(?!\d)"),
    re.compile(rb"sm_\d"),
)


def occurs(data: bytes) -> bool:
    """Return whether there is a PTX text anywhere in a file, with any comments, also in the strings of a source.

    Each byte is read once: the search continues after the skipped bytes.
    """
    at = find(data, VERSION)
    last_end = data.rfind(b"*/") if at >= 0 else -1
    while at >= 0:
        version = _NUMBER.match(data, after := _blank(data, at + len(VERSION), last_end))
        if version:
            after = _blank(data, version.end(), last_end)
            if data.startswith(b".target", after):
                after = _blank(data, after + len(b".target"), last_end)
                if _NAME.match(data, after):
                    return True
        at = find(data, VERSION, after)
    return False


def _blank(data: bytes, at: int, last_end: int) -> int:
    """Return the offset after white space and comments; the last comment of the file ends at `last_end`."""
    while True:
        if match := _SPACE.match(data, at):
            at = match.end()
        if data.startswith(b"//", at):
            end = data.find(b"\n", at)
            at = len(data) if end < 0 else end
        elif data.startswith(b"/*", at) and last_end >= at + 2:
            at = data.find(b"*/", at + 2) + 2
        else:
            return at


def embedded(data: bytes, budget: Budget | None = None, start: int = 0) -> tuple[FatbinContainer, ...]:
    """Describe the PTX texts in bytes at `start` of a file, each of which ends with a NUL, as in Halide's libraries."""
    found = []
    end = 0
    for at in find_all(data, VERSION):
        before = data[max(0, at - _INDENTED) : at]
        match = _TEXT.match(data, at - len(before) + len(before.rstrip(b" \t")))
        if match is None:
            continue
        if budget:
            budget.spend("entries", 1)
        if at >= end:
            end = data.find(b"\0", at) % (len(data) + 1)  # without a NUL the end of the data
        size = end - match.start()
        entry = FatbinEntry("ptx", Arch.parse(match[2].decode()), match[1].decode(), size, size)
        found.append(FatbinContainer(start + match.start(), size, (entry,)))
    return tuple(found)


def standalone(head: bytes, size: int) -> FatbinContainer | None:
    """Describe a `.ptx` file of `size` bytes by its first bytes; None if it is not PTX."""
    version, target = re.search(_VERSION, head, re.MULTILINE), re.search(_TARGET, head, re.MULTILINE)
    if not version or not target:
        return None
    entry = FatbinEntry("ptx", Arch.parse(target[1].decode()), version[1].decode(), size, size)
    return FatbinContainer(0, size, (entry,))
