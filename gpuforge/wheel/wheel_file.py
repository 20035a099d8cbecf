"""The file WHEEL of a `.dist-info` folder: the tags, and whether the wheel is installed into purelib.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-contents
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from packaging.tags import Tag, parse_tag

from gpuforge.errors import TooLargeError
from gpuforge.wheel import metadata

_MOST = 10_000  # tags; published wheels have some hundred at most


def new(*, purelib: bool, tags: Iterable[Tag] = ()) -> bytes:
    """Return a WHEEL with these tags."""
    lines = ["Wheel-Version: 1.0", "Generator: gpuforge", f"Root-Is-Purelib: {str(purelib).lower()}"]
    return "".join(f"{line}\n" for line in [*lines, *(f"Tag: {tag}" for tag in tags)]).encode()


def with_tags(text: bytes, tags: Iterable[Tag]) -> bytes:
    """Return WHEEL with its tags replaced by these, sorted; the other lines stay."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lower().startswith(b"tag:")]
    return b"\n".join([*lines, *(f"Tag: {tag}".encode() for tag in sorted(map(str, tags)))]) + b"\n"


def tags(text: bytes) -> tuple[Tag | str, ...]:
    """Return every tag of its Tag lines, sorted; a line that is not a tag stays text.

    Raises TooLargeError.
    """
    lines = metadata.fields(text, "Tag")
    if sum(map(_count, lines)) > _MOST:
        raise TooLargeError.of(f"WHEEL stands for more than {_MOST:,} tags")
    return tuple(sorted({tag for line in lines for tag in _expanded(line)}, key=str))


def purelib_lines(text: bytes) -> tuple[str, ...]:
    """Return the values of its Root-Is-Purelib lines, of which there should be one."""
    return tuple(metadata.fields(text, "Root-Is-Purelib"))


def _count(line: str) -> int:
    """Return the number of tags in a line: 2 of "py2.py3-none-any"."""
    return math.prod(part.count(".") + 1 for part in line.split("-"))


def _expanded(line: str) -> Iterable[Tag | str]:
    try:
        return parse_tag(line)
    except ValueError:
        return [line]
