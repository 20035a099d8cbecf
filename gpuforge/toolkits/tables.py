"""What each CUDA toolkit can do and needs, and which wishes it cannot fulfil; the data is in data/cuda.toml."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import tomli

from gpuforge.cuda.arch import Arch
from gpuforge.errors import UsageError

if TYPE_CHECKING:
    from packaging.version import Version


class Release(NamedTuple):
    """One toolkit minor. Architectures are written as in `sm_…`: "80", "90a", "100f"."""

    version: str
    ptx: str  # the PTX ISA that it writes
    driver: str | None  # released with it, and needed by its PTX; None where there is none or it is unknown
    driver_floor: str  # the oldest driver for programs of the same major that need no PTX
    hosts: Mapping[str, tuple[int, int]]  # host compiler family -> first and last major
    archs: tuple[str, ...]
    deprecated: tuple[str, ...]
    source: str
    host_source: str


class Former(NamedTuple):
    """A toolkit minor that is not built with: what its GPU code needs."""

    version: str
    ptx: str
    driver: str  # released with it, and needed by all its programs where it is older than 11


class Host(Protocol):
    """What is asked of a host compiler (toolchains.model.Compiler has it)."""

    @property
    def family(self) -> str:
        """The family's name: g++, clang++."""

    @property
    def version(self) -> "Version":
        """Its version."""


class Problem(NamedTuple):
    """One thing that this toolkit cannot do; `item` is the place in the list that `subject` names, if it is one."""

    subject: Literal["archs", "ptx", "host", "toolkit"]
    item: int | None
    message: str
    hint: str


def parsed(version: str) -> "Version":
    """Return a version that can be compared with others."""
    from packaging.version import Version  # noqa: PLC0415  loading it takes a twentieth of a small audit

    return Version(version)


@cache
def load(name: str) -> dict[str, Any]:
    """Return one of the data files beside this module; nobody changes it."""
    return tomli.loads((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))


@cache
def releases() -> tuple[Release, ...]:
    """Return every known toolkit minor, oldest first."""
    data = load("cuda.toml")
    floors = {row["cuda"]: row["driver"] for row in data["major"]}
    return tuple(
        Release(
            version=row["version"],
            ptx=row["ptx"],
            driver=row.get("driver"),
            driver_floor=floors[parsed(row["version"]).major],
            hosts={"g++": tuple(row["gxx"]), "clang++": tuple(row["clangxx"])},
            archs=tuple(row["archs"]),
            deprecated=tuple(row["deprecated"]),
            source=row["source"],
            host_source=row["host-source"],
        )
        for row in data["toolkit"]
    )


@cache
def former() -> tuple[Former, ...]:
    """Return the toolkit minors before the known ones, oldest first."""
    return tuple(Former(**row) for row in load("cuda.toml")["former"])


def release(version: str) -> Release:
    """Return the data of one toolkit minor ("13.0"); raises UsageError with the nearest known ones."""
    for known in releases():
        if known.version == version:
            return known
    message, hint = _unknown(version)
    raise UsageError.of(message, hint=hint)


def problems(*, toolkit: str, host: Host | None, archs: Sequence[str], ptx: str | None) -> list[Problem]:
    """Return everything that cannot work in this combination, each with the nearest one that can."""
    known = next((r for r in releases() if r.version == toolkit), None)
    if known is None:
        message, hint = _unknown(toolkit)
        return [Problem("toolkit", None, message, hint)]
    found = [
        Problem("archs", index, *_no_such_arch(known, arch, "sm"))
        for index, arch in enumerate(archs)
        if arch not in known.archs
    ]
    if ptx is not None and ptx not in known.archs:
        found.append(Problem("ptx", None, *_no_such_arch(known, ptx, "compute")))
    if host is not None:
        found.extend(_host_problems(known, host))
    return found


def _unknown(version: str) -> tuple[str, str]:
    """Return message and hint for a toolkit that is not in the table."""
    names = [r.version for r in releases()]
    message = f"unknown CUDA toolkit {version!r}"
    minor = re.match(r"(\d+\.\d+)\.\d", version)
    if minor and minor[1] in names:
        return message, f"name the minor only: {minor[1]!r}"
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        return message, f"write it as in '13.0'; known: {', '.join(names)}"
    of_major = [n for n in names if n.partition(".")[0] == version]
    if of_major:
        return message, f"name the minor too: {', '.join(of_major)}"
    at = parsed(version)
    below = [n for n in names if parsed(n) < at][-1:]
    above = [n for n in names if parsed(n) > at][:1]
    return message, f"nearest: {' and '.join(below + above)}; known: {', '.join(names)}"


def _no_such_arch(known: Release, arch: str, kind: str) -> tuple[str, str]:
    """Return message and hint for an architecture (`kind`: sm, or compute for PTX) that this toolkit has not."""
    message = f"CUDA {known.version} does not compile for {kind}_{arch}; it knows {', '.join(known.archs)}"
    others = [r for r in releases() if arch in r.archs]
    if not others:
        return (
            message,
            f"no known toolkit has {kind}_{arch}; the nearest architecture here is {_nearest(arch, known.archs)}",
        )
    earlier = [r.version for r in others if parsed(r.version) < parsed(known.version)]
    if earlier:
        instead = f"CUDA {earlier[-1]} was the last that did"
    else:
        instead = f"CUDA {others[0].version} is the first that does"
    return message, f"{instead}; the nearest architecture here is {_nearest(arch, known.archs)}"


def _nearest(arch: str, archs: Iterable[str]) -> str:
    """Return the architecture of the closest number, of the same kind (plain, a, f) if there are two."""

    wished = Arch.parse(arch)

    def distance(other: str) -> tuple[int, bool]:
        known = Arch.parse(other)
        apart = 10 * (known.major - wished.major) + known.minor - wished.minor
        return abs(apart), known.variant != wished.variant

    return min(archs, key=distance)


def _host_problems(known: Release, host: Host) -> Iterator[Problem]:
    accepted = " or ".join(f"{family} {low} to {high}" for family, (low, high) in known.hosts.items())
    if host.family not in known.hosts:
        yield Problem("host", None, f"{host.family} is not known to work as host compiler of CUDA {known.version}",
                      f"use {accepted}")  # fmt: skip
        return
    low, high = known.hosts[host.family]
    if low <= host.version.major <= high:
        return
    fitting = [
        r.version
        for r in releases()
        if r.hosts[host.family][0] <= host.version.major <= r.hosts[host.family][1]
    ]
    newer = [v for v in fitting if parsed(v) > parsed(known.version)]
    toolkit = newer[0] if newer else fitting[-1] if fitting else None
    yield Problem(
        "host",
        None,
        f"CUDA {known.version} takes {host.family} {low} to {high} as host compiler, not {host.version}",
        f"use {accepted}"
        + (f", or CUDA {toolkit}, which takes {host.family} {host.version.major}" if toolkit else ""),
    )
