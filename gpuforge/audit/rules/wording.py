"""Short lists of many names, for the text of findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuforge.binary.facts import ElfObject


def file_names(objects: Iterable[ElfObject]) -> str:
    """List objects by their file names, each once: "libx.so, liby.so"."""
    return ", ".join(dict.fromkeys(o.name for o in objects))


_EACH, _FEW = 4, 3  # files that are named one by one; of more, so many


def shorten(names: Sequence[str]) -> str:
    """Name a few of many: "a, b, c and 9 more"."""
    more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def grouped_by_text(said: Mapping[str, str]) -> Iterator[str]:
    """Yield what is said of files, one line each; of many of which the same is said, their number and a few names."""
    groups: dict[str, list[str]] = {}
    for file, text in said.items():
        groups.setdefault(text, []).append(file)
    for text, files in groups.items():
        if len(files) <= _EACH:
            yield from (f"{file}: {text}" for file in files)
        else:
            yield f"{text}: {len(files):,} files, such as {', '.join(f.rpartition('/')[2] for f in files[:_FEW])}"
