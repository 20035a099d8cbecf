"""Chooses the provider of a CUDA toolkit: the first that has exactly the requested minor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.version import Version

from gpuforge.cuda.releases import release
from gpuforge.errors import UsageError
from gpuforge.toolchains.inventory import Inventory
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
