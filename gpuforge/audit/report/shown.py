"""Text from inside a wheel as it may be shown: a file's name must not steer a terminal."""

from __future__ import annotations

import re

_MOST, _NAMED = 6, 4  # names in a row that are all shown; of more, so many are
# Architectures, versions and capabilities are said one by one: which of them are there is what the line is about.
_NAMES = re.compile(rf"(?<![^\s,;])(?:(?!sm_|compute_|\d|[A-Z]+_\d)[^\s,;]+, ){{{_MOST},}}[^\s,;]+")
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    """Return a text on one line, with control characters (of terminals and of bidirectional text) as escapes."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def brief(text: str) -> str:
    """Return a text in which long lists of names are cut to a few and how many more; the JSON report has them all."""
    return _NAMES.sub(_few, text)


def _few(names: re.Match[str]) -> str:
    held = names[0].split(", ")
    return f"{', '.join(held[:_NAMED])} and {len(held) - _NAMED:,} more"
