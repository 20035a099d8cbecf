"""Short lists of many names, for the text of findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuforge.binary.facts import ElfObject


def file_names(objects: Iterable[ElfObject]) -> tuple[str, ...]:
    """Return the file names of objects, each once."""
    return tuple(dict.fromkeys(o.name for o in objects))


def requirement(lines: Iterable[str]) -> str:
    """Write the Requires-Dist lines that bring a package, each required by the one before it."""
    return repr(" → ".join(lines))


def shorten(names: Sequence[str], most: int = 3) -> str:
    """Return the first names and the number of the rest: "a, b, c and 9 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
