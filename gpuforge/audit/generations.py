"""On which GPUs the device code of a file runs: natively, by JIT from PTX with which driver, or not at all.

Which image runs on which GPU is decided in `gpuforge.cuda.runs_on`, here and on the user's machine. Containers of
one link: nvcc manual, "Using Separate Compilation in CUDA".
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from gpuforge.audit.tables import load
from gpuforge.binary.facts import Container, DeviceCode, Entry
from gpuforge.cuda import releases, runs_on
from gpuforge.cuda.arch import Arch

Way = Literal["native", "jit", "none"]
EMPTY_PTX = 120  # bytes; a PTX text of .version, .target and .address_size alone is shorter
_UNKNOWN = Arch(0, 0)  # of no GPU; PTX that names it is compiled for any
_COMPATIBLE = 11  # the first CUDA major of whose minors any driver runs the cubins of all


class Generation(NamedTuple):
    """A compute capability that GPUs have."""

    capability: str  # "12.0"
    name: str  # "Blackwell, RTX 50"
    machines: tuple[str, ...]  # where such GPUs are; empty for everywhere

    @property
    def number(self) -> tuple[int, int]:
        """The capability as (12, 0)."""
        major, minor = self.capability.split(".")
        return int(major), int(minor)


class Reach(NamedTuple):
    """How the device code of a file runs on one generation: the number of its containers for each way."""

    generation: Generation
    native: int
    jit: int
    none: int
    driver: str  # the oldest driver for all that runs, "525.60.13"; "" where it is not known, or nothing runs

    @property
    def way(self) -> Way | Literal["partly"]:
        """The one word for it: "jit" when any container needs it, "partly" when some run and others do not."""
        if self.none:
            return "partly" if self.native or self.jit else "none"
        return "jit" if self.jit else "native"


@cache
def generations(machine: str = "") -> tuple[Generation, ...]:
    """Return the generations that can be in a machine ("x86_64"), or all of them, oldest first."""
    rows = load("generations.toml")["generation"]
    held = (Generation(r["capability"], r["name"], tuple(r.get("machines", ()))) for r in rows)
    return tuple(g for g in held if not machine or not g.machines or machine in g.machines)


def reach(code: DeviceCode, machine: str = "") -> tuple[Reach, ...]:
    """Judge the device code of one file for each generation, container by container, never by their union."""
    judged, ptx = judgeable(code.containers)
    linked = all(_usable(c) for c in ptx) if ptx else False
    kinds = Counter(map(_kind, judged))  # a library has thousands of containers, of a few kinds
    return _reach(tuple(kinds.items()), tuple(dict.fromkeys(map(_kind, ptx if linked else ()))), machine)


_Kind = tuple[tuple[str, str, str, str, bool], ...]


@lru_cache(maxsize=256)  # and a wheel may have thousands of files with one container each
def _reach(
    kinds: tuple[tuple[_Kind, int], ...], linked: tuple[_Kind, ...], machine: str
) -> tuple[Reach, ...]:
    linked_ptx = [_of_kind(kind) for kind in linked]
    judged = [(_of_kind(kind), count) for kind, count in kinds]
    found = []
    for generation in generations(machine):
        ways = [(*_way(container, generation, linked_ptx), count) for container, count in judged]
        counts = {way: sum(count for w, _, count in ways if w == way) for way in ("native", "jit", "none")}
        drivers = [driver for way, driver, _ in ways if way != "none" and driver]
        newest = max(drivers, key=releases.parsed, default="")
        found.append(Reach(generation, counts["native"], counts["jit"], counts["none"], newest))
    return tuple(found)


def _kind(container: Container) -> _Kind:
    """Return all of a container that decides on where it runs."""
    return tuple((e.kind, e.arch, e.isa, e.toolkit, e.size >= EMPTY_PTX) for e in container.entries)


def _of_kind(kind: _Kind) -> Container:
    """Return a container of this kind, of no place and no size."""
    entries = (
        Entry(name, arch, isa, EMPTY_PTX if whole else 0, 0, toolkit=toolkit)
        for name, arch, isa, toolkit, whole in kind
    )
    return Container(0, 0, tuple(entries))


def judgeable(containers: Iterable[Container]) -> tuple[list[Container], list[Container]]:
    """Return the containers that GPUs run, and the inputs of a device link whose PTX may stand in for the result.

    The inputs of a device link (`__nv_relfatbin`) are no code to run where its result is there. Containers without
    any kernel, of sources that have none, are left out.
    """
    held = [c for c in containers if not _without_kernels(c)]
    inputs = [c for c in held if c.section == "__nv_relfatbin"]
    results = [c for c in held if c.section != "__nv_relfatbin"]
    return (results, inputs) if results else (inputs, [])


def plain_ptx(container: Container) -> list[Entry]:
    """Return the PTX that newer GPUs can run: not empty, and not for one architecture or family alone."""
    whole = (e for e in container.entries if e.kind == "ptx" and e.size >= EMPTY_PTX)
    return [e for e in whole if not arch_of(e.arch).variant]


@cache
def _toolkits() -> tuple[releases.Former, ...]:
    """Return all known toolkits, oldest first."""
    known = (releases.Former(r.version, r.ptx, r.driver or "") for r in releases.releases())
    return (*releases.former(), *known)


@cache
def driver_of_ptx(isa: str) -> str:
    """Return the driver released with the first toolkit that wrote this PTX ISA, "" where it is not known."""
    return next((known.driver for known in _toolkits() if known.ptx == isa and known.driver), "")


def driver_of_cubin(entries: Sequence[Entry]) -> str:
    """Return the oldest driver for the cubins of a container, by the toolkit that its entries tell of; "" if none."""
    isas = {e.isa for e in entries if e.kind == "ptx"}
    versions = {e.toolkit for e in entries if e.toolkit}
    versions |= {known.version for known in _toolkits() if known.ptx in isas}
    majors = {version.partition(".")[0] for version in versions}
    floors = [r.driver_floor for r in releases.releases() if r.version.partition(".")[0] in majors]
    floors += [
        f.driver
        for f in releases.former()
        if f.version in versions and releases.parsed(f.version).major < _COMPATIBLE
    ]
    return max(floors, key=releases.parsed, default="")


def kernelless(container: Container) -> bool:
    """Say whether a container has machine code without any kernel: of a source that has none, or of nvcc's link.

    `nvcc -shared` links the device code of all it is given, and keeps the result where there is nothing to link, too.
    """
    return bool(container.cubins) and _without_kernels(container)


def _without_kernels(container: Container) -> bool:
    """Say whether a container has no kernel to run: its images are empty, or LTO-IR for a link at run time alone."""
    kinds = {e.kind for e in container.entries}
    if kinds <= {"lto-ir"}:
        return True
    if "ptx" in kinds and any(e.kind == "ptx" and e.size >= EMPTY_PTX for e in container.entries):
        return False
    return container.empty if "cubin" in kinds else "ptx" in kinds


def _usable(container: Container) -> bool:
    return bool(plain_ptx(container))


def _way(container: Container, generation: Generation, linked_ptx: Sequence[Container]) -> tuple[Way, str]:
    """Return how a container runs on a generation, and with which driver at least."""
    entries = container.entries
    if any(e.kind == "cubin" and _fits(e.arch, generation.number) for e in entries):
        return "native", driver_of_cubin(entries)
    ptx = [e for e in entries if e.kind == "ptx" and e.size >= EMPTY_PTX]
    isas = [e.isa for e in ptx if _reaches(e.arch, generation.number)]
    if not isas and linked_ptx:
        sets = [[e.isa for e in plain_ptx(c) if _reaches(e.arch, generation.number)] for c in linked_ptx]
        isas = [min(found, key=releases.parsed) for found in sets if found] if all(sets) else []
        return ("jit", _newest(isas)) if isas else ("none", "")
    return ("jit", driver_of_ptx(min(isas, key=releases.parsed))) if isas else ("none", "")


def _newest(isas: Iterable[str]) -> str:
    return max((d for isa in isas if (d := driver_of_ptx(isa))), key=releases.parsed, default="")


def _fits(arch: str, gpu: runs_on.Version) -> bool:
    """Say whether machine code runs on a GPU."""
    return runs_on.binary_mismatch(arch_of(arch), gpu) is None


def _reaches(arch: str, gpu: runs_on.Version) -> bool:
    """Say whether a driver can compile PTX for a GPU."""
    return runs_on.ptx_mismatch(arch_of(arch), gpu) is None


@cache
def arch_of(arch: str) -> Arch:
    """Return "sm_90a" as an `Arch`; Arch(0, 0) for what is no architecture."""
    try:
        return Arch.parse(arch)
    except ValueError:
        return _UNKNOWN
