"""Text from inside a wheel as it may be shown: a file's name must not steer a terminal."""

from __future__ import annotations

import re

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    """Return a text on one line, with control characters (of terminals and of bidirectional text) as escapes."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
