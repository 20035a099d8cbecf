"""Lists why a CUDA toolkit cannot be used in a build: architectures or host compilers that it does not support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from gpuforge.cuda.releases import ToolkitRelease, parsed, releases, unknown
from gpuforge.runtime.arch import Arch

if TYPE_CHECKING:
    from packaging.version import Version


class Host(Protocol):
    """The attributes of a host compiler that matter here; `toolchains.family.Compiler` has them."""

    @property
    def family(self) -> str:
        """The family's name: g++, clang++."""

    @property
    def version(self) -> Version:
        """Its version."""


class Unsupported(NamedTuple):
    """One unsupported thing; `item` is its index if `subject` names a list."""

    subject: Literal["archs", "ptx", "host", "toolkit"]
    item: int | None
    message: str
    hint: str


def problems(
    *, toolkit: str, host: Host | None, archs: Sequence[Arch], ptx: Arch | None
) -> list[Unsupported]:
    """Return everything that is unsupported in this combination, each with the nearest alternative."""
    known = next((r for r in releases() if r.version == toolkit), None)
    if known is None:
        message, hint = unknown(toolkit)
        return [Unsupported("toolkit", None, message, hint)]
    found = [
        Unsupported("archs", index, *_no_such_arch(known, arch, arch.sm))
        for index, arch in enumerate(archs)
        if arch not in known.archs
    ]
    if ptx is not None and ptx not in known.archs:
        found.append(Unsupported("ptx", None, *_no_such_arch(known, ptx, ptx.compute)))
    if host is not None:
        found.extend(_host_problems(known, host))
    return found


def _no_such_arch(known: ToolkitRelease, arch: Arch, name: str) -> tuple[str, str]:
    """Return message and hint for an architecture that this toolkit has not; `name` is the one of nvcc."""
    numbers = ", ".join(each.number for each in known.archs)
    message = f"CUDA {known.version} does not compile for {name}; it knows {numbers}"
    nearest = f"the nearest architecture here is {_nearest(arch, known.archs).number}"
    others = [r for r in releases() if arch in r.archs]
    if not others:
        return message, f"no known toolkit has {name}; {nearest}"
    earlier = [r.version for r in others if parsed(r.version) < parsed(known.version)]
    if earlier:
        instead = f"CUDA {earlier[-1]} was the last that did"
    else:
        instead = f"CUDA {others[0].version} is the first that does"
    return message, f"{instead}; {nearest}"


def _nearest(arch: Arch, archs: Iterable[Arch]) -> Arch:
    """Return the architecture of the closest number, of the same kind (plain, a, f) if there are two."""

    def distance(other: Arch) -> tuple[int, bool]:
        apart = 10 * (other.major - arch.major) + other.minor - arch.minor
        return abs(apart), other.variant != arch.variant

    return min(archs, key=distance)


def _host_problems(known: ToolkitRelease, host: Host) -> Iterator[Unsupported]:
    accepted = " or ".join(f"{family} {low} to {high}" for family, (low, high) in known.hosts.items())
    if host.family not in known.hosts:
        yield Unsupported("host", None, f"{host.family} is not known to work as host compiler of CUDA {known.version}",
                      f"use {accepted}")  # fmt: skip
        return
    low, high = known.hosts[host.family]
    if low <= host.version.major <= high:
        return
    fitting = [
        r.version
        for r in releases()
        if host.family in r.hosts and r.hosts[host.family][0] <= host.version.major <= r.hosts[host.family][1]
    ]
    newer = [v for v in fitting if parsed(v) > parsed(known.version)]
    toolkit = newer[0] if newer else fitting[-1] if fitting else None
    yield Unsupported(
        "host",
        None,
        f"CUDA {known.version} takes {host.family} {low} to {high} as host compiler, not {host.version}",
        f"use {accepted}"
        + (f", or CUDA {toolkit}, which takes {host.family} {host.version.major}" if toolkit else ""),
    )
