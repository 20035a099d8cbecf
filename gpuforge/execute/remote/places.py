"""Where client and workers meet: a shared store, or a folder of the machine that all of them run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gpuforge.execute.cache_folder import cache_folder
from gpuforge.execute.objects.connect import connect
from gpuforge.execute.objects.port import Objects
from gpuforge.execute.remote.job import Run
from gpuforge.execute.shared.opening import opened
from gpuforge.execute.store import FolderStore, Store


@dataclass(frozen=True, slots=True)
class Places:
    """The store, the objects by which client and workers talk, and this machine's cache folder."""

    store: Store
    objects: Objects
    cache: Path


def places(run: Run, environ: Mapping[str, str]) -> Places:
    """Return the places of a run, for a worker."""
    folder = run.cache or cache_folder(environ)
    return _places(run.store, folder)


def of_client(run: Run, folder: Path, store: Store) -> Places:
    """Return the places of a run, for its client, which has the store already."""
    return replace(_places(run.store, folder.absolute()), store=store)


@cache
def _places(url: str | None, folder: Path) -> Places:
    if url is None:
        return Places(FolderStore(folder / "store"), connect(str((folder / "board").absolute())), folder)
    return Places(opened(folder / "store", url), connect(url), folder)
