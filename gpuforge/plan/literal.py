"""Text of a manifest in an action: `$` is written `$$`, so that the engine fills no placeholder in it."""

from __future__ import annotations

from collections.abc import Iterable


def literal(text: str) -> str:
    """Return text that an action's command will get as it is."""
    return text.replace("$", "$$")


def literals(words: Iterable[str]) -> tuple[str, ...]:
    """Return the same for several words."""
    return tuple(map(literal, words))
