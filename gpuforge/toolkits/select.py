"""Chooses the provider of a CUDA toolkit; lists architectures and host compilers that a toolkit does not support."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.version import Version

from gpuforge.cuda.releases import ToolkitRelease, parsed, release, releases, unknown
from gpuforge.errors import UsageError
from gpuforge.runtime.arch import Arch
from gpuforge.toolchains.inventory import Inventory
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits.providers import PROVIDERS, fetchers
from gpuforge.toolkits.toolkit import Toolkit, ToolkitRequest

MACHINES = ("x86_64", "aarch64")


def select(
    version: str,
    *,
    provider: str | None,
    libraries: Sequence[str],
    machine: str,
    search: Sequence[Path] | None = None,
    inventory: Inventory | None = None,
) -> Toolkit:
    """Return the toolkit to use for `version` (a minor: "13.0") with these `libraries` (cufft, cublas …).

    Without a `provider`, the first of `PROVIDERS` that has exactly that minor. `search` are folders to look for
    installations in, instead of the usual ones; `inventory` is the content of the build's image. Raises UsageError for
    an unknown version, provider, library or machine. Raises MissingError, with the toolkits that were found, if there
    is none.
    """
    request = ToolkitRequest(release(version).version, libraries, machine, search, inventory)
    if machine not in MACHINES:
        raise UsageError.of(f"no CUDA toolkit for machine {machine!r}", hint=f"known: {', '.join(MACHINES)}")
    if provider not in {None, *PROVIDERS}:
        raise UsageError.of(f"unknown toolkit provider {provider!r}", hint=f"known: {', '.join(PROVIDERS)}")
    for name, each in PROVIDERS.items():
        if provider in {None, name} and (toolkit := each.offer(request)):
            return toolkit
    raise PROVIDERS[provider or "system"].absent(request, _elsewhere(request.minor))


def _elsewhere(minor: str) -> str:
    """Return the providers from which gpuforge fetches a minor, or the minors that it fetches, as a sentence."""
    sources = {name: each.minors() for name, each in fetchers().items()}
    names = [name for name, minors in sources.items() if minor in minors]
    if names:
        return f"gpuforge fetches CUDA {minor} by {' or '.join(names)}"
    known = sorted({each for minors in sources.values() for each in minors}, key=Version)
    return f"use one of those that gpuforge fetches: {', '.join(known)}"


class Unsupported(NamedTuple):
    """One unsupported thing; `item` is its index if `subject` names a list."""

    subject: Literal["archs", "ptx", "host", "toolkit"]
    item: int | None
    message: str
    hint: str


def unsupported(
    *, toolkit: str, host: Compiler | None, archs: Sequence[Arch], ptx: Arch | None
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


def _host_problems(known: ToolkitRelease, host: Compiler) -> Iterator[Unsupported]:
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
