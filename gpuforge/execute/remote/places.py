"""Where client and workers meet: a shared store, or a folder of the machine that all of them run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuforge.cache_folder import cache_folder
from gpuforge.execute.objects.connect import connect
from gpuforge.execute.objects.port import Objects
from gpuforge.execute.remote.job import Run
from gpuforge.execute.shared.opening import opened
from gpuforge.execute.shared.store import SharedStore
from gpuforge.execute.store import FolderStore, Store, WorkStore


@dataclass(frozen=True, slots=True)
class SharedPlaces:
    """The store, the objects by which client and workers talk, and this machine's cache folder."""

    store: WorkStore
    objects: Objects
    cache: Path


def of_client(run: Run, folder: Path, store: WorkStore) -> SharedPlaces:
    """Return the places of a run for its client, which has the store already."""
    return SharedPlaces(store, _objects(run, folder, store), folder)


def of_worker(run: Run, environ: Mapping[str, str]) -> SharedPlaces:
    """Return the places of a run for a worker."""
    folder = run.cache or cache_folder(environ)
    store = _store(run.store, folder)
    return SharedPlaces(store, _objects(run, folder, store), folder)


@cache
def _store(url: str | None, folder: Path) -> WorkStore:
    return opened(folder / "store", url) if url else FolderStore(folder / "store")


def _objects(run: Run, folder: Path, store: Store) -> Objects:
    """Return the objects of runs: those of the shared store or, on one machine, files of its cache folder."""
    if isinstance(store, SharedStore) and not run.cache:
        return store.objects
    return connect(str((folder / "board").absolute()))
