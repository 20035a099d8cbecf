"""The GPUs that run the device code of a file: natively, by JIT from PTX with a certain driver, or not at all.

`gpuforge.runtime.runs_on` decides which image runs on which GPU, here and on the user's machine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from gpuforge.binary.facts import DeviceCode, FatbinContainer, FatbinEntry
from gpuforge.binary.runnable import EMPTY_PTX, complete_ptx, portable_ptx, runnable
from gpuforge.cuda.releases import (
    Generation,
    driver_of_cubins,
    driver_of_gpu,
    driver_of_ptx,
    driver_of_zstd,
    generations,
    parsed,
)
from gpuforge.cuda.version import numbers_of
from gpuforge.runtime.arch import Arch, Version, binary_mismatch, ptx_mismatch

Way = Literal["native", "jit", "none"]
_Kind = tuple[tuple[str, Arch, str, str, bool], ...]


class Reach(NamedTuple):
    """How the device code of a file runs on one generation: the number of its containers for each way."""

    generation: Generation
    native: int
    jit: int
    none: int
    driver: str  # the oldest driver for all that runs, "525.60.13"; "" if it is not known, or nothing runs

    @property
    def way(self) -> Way | Literal["partly"]:
        """The way of the whole file: "jit" if any container needs it, "partly" if some run and others do not."""
        if self.none:
            return "partly" if self.native or self.jit else "none"
        return "jit" if self.jit else "native"


def reach(code: DeviceCode, machine: str = "") -> tuple[Reach, ...]:
    """Judge the device code of one file for each generation, each container by itself, never their union."""
    kinds, linked = _kinds(code)
    return _reach(tuple(kinds.items()), linked, machine)


def reach_apart(code: DeviceCode, machine: str = "") -> Iterator[tuple[Reach, ...]]:
    """Judge each kind of container of one file as if it were alone, with the PTX that a device link left for it."""
    kinds, linked = _kinds(code)
    return (_reach(((kind, 1),), linked, machine) for kind in kinds)


def _kinds(code: DeviceCode) -> tuple[Counter[_Kind], tuple[_Kind, ...]]:
    """Count the kinds of containers, as a library has thousands of a few; and those with a device link's PTX."""
    judged, ptx = runnable(code.containers)
    linked = bool(ptx) and all(map(portable_ptx, ptx))
    return Counter(map(_kind, judged)), tuple(dict.fromkeys(map(_kind, ptx if linked else ())))


@lru_cache(maxsize=256)  # a wheel may have thousands of files with one container each
def _reach(
    kinds: tuple[tuple[_Kind, int], ...], linked: tuple[_Kind, ...], machine: str
) -> tuple[Reach, ...]:
    linked_ptx = [_of_kind(kind) for kind in linked]
    judged = [(_of_kind(kind), count) for kind, count in kinds]
    found = []
    for generation in generations(machine):
        ways = list(_ways(judged, generation, linked_ptx))
        counts = {way: sum(count for w, _, count in ways if w == way) for way in ("native", "jit", "none")}
        drivers = [driver for way, driver, _ in ways if way != "none" and driver]
        if drivers:  # the GPU itself needs a driver, too
            drivers.append(driver_of_gpu(generation.capability))
        newest = max(filter(None, drivers), key=parsed, default="")
        found.append(Reach(generation, counts["native"], counts["jit"], counts["none"], newest))
    return tuple(found)


def _kind(container: FatbinContainer) -> _Kind:
    """Return the properties of a container that decide where it runs."""
    return tuple((e.kind, e.arch, e.isa, e.toolkit, e.size >= EMPTY_PTX) for e in container.entries)


def _of_kind(kind: _Kind) -> FatbinContainer:
    """Return a container of this kind, without place and size."""
    entries = (
        FatbinEntry(name, arch, isa, EMPTY_PTX if whole else 0, 0, toolkit=toolkit)
        for name, arch, isa, toolkit, whole in kind
    )
    return FatbinContainer(0, 0, tuple(entries))


def _ways(
    judged: Iterable[tuple[FatbinContainer, int]],
    generation: Generation,
    linked_ptx: Sequence[FatbinContainer],
) -> Iterator[tuple[Way, str, int]]:
    """Yield how containers run on a generation, the oldest driver for it, and their number.

    The PTX of the inputs of a device link belongs to its result, a container without PTX of its own.
    """
    linked = _linked(generation, linked_ptx)
    for container, count in judged:
        way, driver = _way(container, generation)
        result = bool(linked and way == "none" and not container.ptx)
        if result:
            yield "jit", max((d for isa in linked if (d := driver_of_ptx(isa))), key=parsed, default=""), 1
            linked = []
        if count > result:
            yield way, driver, count - result


def _way(container: FatbinContainer, generation: Generation) -> tuple[Way, str]:
    entries = container.entries
    if any(e.kind == "cubin" and binary_mismatch(e.arch, generation.number) is None for e in entries):
        return "native", driver_of_container(entries)
    isas = [e.isa for e in complete_ptx(container) if _reaches(e, generation.number)]
    return ("jit", driver_of_ptx(min(isas, key=parsed))) if isas else ("none", "")


def _linked(generation: Generation, linked_ptx: Sequence[FatbinContainer]) -> list[str]:
    """Return the ISA of each input of a device link that is compiled for a generation; empty if one has none."""
    sets = [[e.isa for e in portable_ptx(c) if _reaches(e, generation.number)] for c in linked_ptx]
    return [min(found, key=parsed) for found in sets] if all(sets) else []


def driver_of_container(entries: Sequence[FatbinEntry]) -> str:
    """Return the oldest driver for the machine code of a container, by the toolkits that its entries name, or "".

    One that is packed with zstd needs a driver that unpacks it.
    """
    driver = driver_of_cubins(
        (e.toolkit for e in entries if e.toolkit), (e.isa for e in entries if e.kind == "ptx")
    )
    zstd = driver_of_zstd() if any(e.compression == "zstd" for e in entries) else ""
    return max(driver, zstd, key=numbers_of)


def _reaches(ptx: FatbinEntry, gpu: Version) -> bool:
    """Return whether a driver can compile PTX for a GPU."""
    return ptx_mismatch(ptx.arch, gpu) is None
