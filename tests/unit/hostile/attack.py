"""The list of attacks, and how one enters it."""

from collections.abc import Callable, Sequence
from pathlib import Path

Builder = Callable[[Path], Sequence[Path]]
ATTACKS: dict[str, Builder] = {}


def attack(builder: Builder) -> Builder:
    """Add a builder to the list, by its module and name."""
    ATTACKS[f"{builder.__module__.rpartition('.')[2]}-{builder.__name__}"] = builder
    return builder
