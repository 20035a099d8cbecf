"""CUDA releases with their architectures, host compilers and drivers; the table is data/cuda.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gpuforge.cuda.version import is_of
from gpuforge.datafile import load, rows
from gpuforge.errors import UsageError
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from packaging.version import Version
from collections.abc import Iterable, Sequence
from itertools import chain

from gpuforge.cuda.targets import Target
from gpuforge.cuda.version import major_of
from gpuforge.runtime.arch import EMBEDDED, MINORS_AGREE, RENAMED


class ToolkitRelease(NamedTuple):
    """One toolkit minor, and the targets that it compiles for."""

    version: str
    ptx: str  # the PTX ISA that it writes
    driver: str | None  # released with it, and needed by its PTX; None if there was none, or it is unknown
    driver_floor: str  # the oldest driver for programs of the same major that need no PTX
    hosts: Mapping[str, tuple[int, int]]  # host compiler family -> first and last major
    archs: tuple[Arch, ...]
    source: str


class Former(NamedTuple):
    """A toolkit minor that is too old to build with: the needs of its GPU code."""

    version: str
    ptx: str
    driver: str  # released with it, and needed by all its programs if it is older than 11


def parsed(version: str) -> Version:
    """Return a version that can be compared with others."""
    from packaging.version import Version  # noqa: PLC0415  loading it takes a twentieth of a small audit

    return Version(version)


@cache
def releases() -> tuple[ToolkitRelease, ...]:
    """Return every known toolkit minor, oldest first."""
    data = load(__file__, "cuda.toml")
    floors = {row["cuda"]: row["driver"] for row in data["major"]}
    parse = cache(Arch.parse)  # most toolkits have the same ones
    return tuple(
        ToolkitRelease(
            version=row["version"],
            ptx=row["ptx"],
            driver=row.get("driver"),
            driver_floor=floors[parsed(row["version"]).major],
            hosts={family: tuple(majors) for family, majors in row["hosts"].items()},
            archs=tuple(map(parse, row["archs"])),
            source=row["source"],
        )
        for row in data["toolkit"]
    )


@cache
def former() -> tuple[Former, ...]:
    """Return the toolkit minors before the known ones, oldest first."""
    return rows(Former, load(__file__, "cuda.toml")["former"])


def release(version: str) -> ToolkitRelease:
    """Return the data of one toolkit minor ("13.0"); raises UsageError with the nearest known ones."""
    for known in releases():
        if known.version == version:
            return known
    message, hint = unknown(version)
    raise UsageError.of(message, hint=hint)


def unknown(version: str) -> tuple[str, str]:
    """Return message and hint for a toolkit that is not in the table."""
    names = [r.version for r in releases()]
    message = f"unknown CUDA toolkit {version!r}"
    minor = re.match(r"(\d+\.\d+)\.\d", version)
    if minor and minor[1] in names:
        return message, f"name the minor only: {minor[1]!r}"
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        return message, f"write it as in '13.0'; known: {', '.join(names)}"
    of_major = [n for n in names if is_of(n, version)]
    if of_major:
        return message, f"name the minor too: {', '.join(of_major)}"
    at = parsed(version)
    below = [n for n in names if parsed(n) < at][-1:]
    above = [n for n in names if parsed(n) > at][:1]
    return message, f"nearest: {' and '.join(below + above)}; known: {', '.join(names)}"


COMMON = "common"


def common(release: ToolkitRelease) -> tuple[Target, ...]:
    """Return machine code for the lowest architecture of each major, and PTX of the lowest of all.

    Machine code runs on its major's later GPUs, PTX on everything from its architecture on. Embedded GPUs, which share
    no machine code with others, run the PTX.
    """
    lowest: dict[int, Arch] = {}
    for arch in known_gpus(release):
        if RENAMED.get(arch.capability, arch.capability) not in EMBEDDED:
            lowest.setdefault(arch.major, arch)
    first, *later = lowest.values()
    return (Target(first, ptx=True), *map(Target, later))


def spelled_out(archs: Sequence[str], release: ToolkitRelease) -> tuple[str, ...]:
    """Return a manifest's `archs` with "common" replaced by its architectures, each once; the others stay."""
    if COMMON not in archs:
        return tuple(archs)
    meant = (common(release) if text == COMMON else (Target.parse(text),) for text in archs)
    found: dict[Arch, bool] = {}
    for target in chain.from_iterable(meant):
        found[target.arch] = found.get(target.arch, False) or target.ptx
    return tuple(Target(arch, ptx=ptx).written for arch, ptx in sorted(found.items()))


def known_gpus(release: ToolkitRelease) -> Iterable[Arch]:
    """Return the GPUs that a toolkit knows, the lowest first."""
    return sorted({Arch(*arch.capability) for arch in release.archs})


def driver_of_ptx(isa: str) -> str:
    """Return the driver released with the first toolkit that wrote this PTX ISA ("8.4"), "" if it is unknown."""
    return _by_isa().get(isa, "")


def driver_of_cubins(toolkits: Iterable[str], isas: Iterable[str]) -> str:
    """Return the oldest driver for machine code of these toolkits ("12.4"), "" if none is known.

    `isas` are the PTX ISAs beside the machine code, which also identify toolkits.
    """
    versions, written = set(toolkits), set(isas)
    versions |= {row.version for row in _toolkits() if row.ptx in written}
    majors = {major_of(version) for version in versions}
    floors = [r.driver_floor for r in releases() if major_of(r.version) in majors]
    floors += [
        row.driver for row in former() if row.version in versions and parsed(row.version).major < MINORS_AGREE
    ]
    return max(floors, key=parsed, default="")


@cache
def driver_of_gpu(capability: str) -> str:
    """Return the driver released with the first toolkit that supports GPUs of a capability ("10.0").

    "" for those that the table's oldest toolkit supports, whose drivers are older than the table.
    """
    arch = Arch.parse(capability)
    first, *later = releases()
    if arch in first.archs:
        return ""
    return next((r.driver or "" for r in later if arch in r.archs), "")


@cache
def driver_of_zstd() -> str:
    """Return the oldest driver that unpacks GPU code that nvcc packed with zstd (`--compress-mode=size`)."""
    return str(load(__file__, "cuda.toml")["zstd"]["driver"])


@cache
def _by_isa() -> dict[str, str]:
    return {row.ptx: row.driver for row in reversed(_toolkits()) if row.driver}


@cache
def _toolkits() -> tuple[Former, ...]:
    """Return all known toolkits, oldest first."""
    later = (Former(r.version, r.ptx, r.driver or "") for r in releases())
    return (*former(), *later)


class Generation(NamedTuple):
    """A compute capability of GPUs."""

    capability: str  # "12.0"
    family: str  # the name of GPUs of several capabilities together: "Blackwell"
    gpu: str = ""  # the only GPU or board with it: "RTX 50"; "" if there are many
    machines: tuple[str, ...] = ()  # the machines with such GPUs; empty for all

    @property
    def name(self) -> str:
        """Its name in reports: "Blackwell, RTX 50"."""
        return f"{self.family}, {self.gpu}" if self.gpu else self.family

    @property
    def number(self) -> tuple[int, int]:
        """The capability as (12, 0)."""
        return Arch.parse(self.capability).capability


@cache
def generations(machine: str = "") -> tuple[Generation, ...]:
    """Return the generations that can be in a machine ("x86_64"), or all of them, oldest first."""
    known = rows(Generation, load(__file__, "generations.toml")["generation"])
    return tuple(g for g in known if not machine or not g.machines or machine in g.machines)
