"""The GPU code of one library as a whole: a GPU that is to run it must be able to run each of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuforge.audit.runnable import portable_ptx, runnable
from gpuforge.binary.facts import Container, Entry

_LOADABLE = ("cubin", "ptx")  # what the driver takes as it is; LTO-IR wants a linker first


def usable_everywhere(found: Iterable[Container]) -> list[Entry]:
    """Return the images that each container has, cubins first: on the GPUs of these the whole library runs.

    The PTX of relocatable code lies in the inputs of its device link.
    """
    judged, inputs = runnable(found)
    groups = [[e for e in c.entries if e.kind in _LOADABLE] for c in judged]
    linked = _shared([portable_ptx(c) for c in inputs]) if inputs else []
    return sorted(
        _shared([[*group, *linked] for group in groups]), key=lambda e: (e.kind, len(e.arch), e.arch)
    )


def _shared(groups: Sequence[Sequence[Entry]]) -> list[Entry]:
    """Return the entries of the first group whose like is in every other."""
    keys = [{(e.kind, e.arch, e.isa) for e in group} for group in groups]
    first = {(e.kind, e.arch, e.isa): e for e in groups[0]} if groups else {}
    return [entry for key, entry in first.items() if all(key in each for each in keys)]
