"""A compiler's or a command's words, as an action has them: the placeholders of a `LibraryCall` filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_ABSENT = ("arch", "cuda", "folders")  # what nothing is known of in a build


def fill(words: Sequence[str], paths: Mapping[str, Sequence[str]]) -> list[str]:
    """Fill a call's placeholders: a word is repeated for each value, and left out where there is none."""
    filled = []
    for word in words:
        named = next((name for name in (*paths, *_ABSENT) if f"{{{name}}}" in word), "")
        values = paths.get(named, ()) if named else [""]
        filled += [word.replace(f"{{{named}}}", value) for value in values]
    return filled
