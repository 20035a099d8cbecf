"""Fills the placeholders in the words of a command."""

import re
from collections.abc import Mapping, Sequence

PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


def fill(words: Sequence[str], values: Mapping[str, Sequence[str]]) -> "list[str]":
    """Fill placeholders such as `{sources}`: a word is repeated for each value, and dropped if there is none.

    A word has at most one placeholder; names that are not among the `values` stay unchanged.
    """
    filled = []
    for word in words:
        named = next((name for name in PLACEHOLDER.findall(word) if name in values), "")
        filled += [word.replace(f"{{{named}}}", value) for value in values[named]] if named else [word]
    return filled
