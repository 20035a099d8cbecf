# A copy of gpuforge/toolchains/placeholders.py, made by scripts/copy_to_runtime.py: change it there.
"""The words of a command, with their placeholders filled in; `runtime/placeholders.py` is a copy of this file."""

import re
from collections.abc import Mapping, Sequence

PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


def fill(words: Sequence[str], values: Mapping[str, Sequence[str]]) -> "list[str]":
    """Fill placeholders such as `{sources}`: a word is repeated for each value, and dropped if there is none.

    A word has one placeholder at most; names that are not among the `values` stay as they are.
    """
    filled = []
    for word in words:
        named = next((name for name in PLACEHOLDER.findall(word) if name in values), "")
        filled += [word.replace(f"{{{named}}}", value) for value in values[named]] if named else [word]
    return filled
