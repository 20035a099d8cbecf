"""Fills the placeholders in the words of a command."""

import re
from collections.abc import Mapping, Sequence

PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


def fill(words: Sequence[str], values: Mapping[str, Sequence[str]]) -> "list[str]":
    """Fill placeholders such as `{sources}`: a word is repeated for each value, and dropped if there is none.

    Names that are not among the `values` stay unchanged.
    """
    filled = []
    for word in words:
        parts = [word]
        for name in dict.fromkeys(PLACEHOLDER.findall(word)):
            text = f"{{{name}}}"
            parts = [part.replace(text, value) for part in parts for value in values.get(name, [text])]
        filled += parts
    return filled
