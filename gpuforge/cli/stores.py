"""The store that a command works with: this machine's folder, or before it the one that GPUFORGE_STORE names."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.errors import UsageError
from gpuforge.execute.objects.port import VARIABLE
from gpuforge.execute.store import FolderStore, Store
from gpuforge.manifest.sizes import size_in_bytes

if TYPE_CHECKING:
    from gpuforge.execute.shared.store import SharedStore

LIMIT = "GPUFORGE_STORE_CACHE"


def opened(cache: Path) -> FolderStore | SharedStore:
    """Return the store in gpuforge's folder `cache`, shared with other machines where GPUFORGE_STORE says so.

    Raises UsageError for an address or a size that is none, and MissingError where a package for it is missing.
    """
    if not (url := address()):
        return FolderStore(cache / "store")
    from gpuforge.execute.shared import opening

    return opening.opened(cache / "store", url, _most() or opening.MOST)


def address() -> str | None:
    """Return where the shared store lies, if there is one."""
    return os.environ.get(VARIABLE) or None


def for_jobs() -> list[str]:
    """Return what a CI system's jobs must have to share this store: its address, and the names of what is secret."""
    url = address()
    if url is None:
        return []
    names = (
        sorted(name for name in os.environ if name.startswith(("AWS_", "GOOGLE_"))) if "://" in url else []
    )
    secrets = f", and {', '.join(names)} as secrets" if names else ""
    return [f"note: set {VARIABLE}={url} in every job{secrets}"]


def present(store: Store) -> AbstractContextManager[None]:
    """Be seen as a build by who prunes a shared store."""
    return store.present() if hasattr(store, "present") else nullcontext()


def _most() -> int | None:
    text = os.environ.get(LIMIT)
    try:
        return size_in_bytes(text) if text else None
    except ValueError as error:
        raise UsageError.of(
            f"{LIMIT} is {text!r}, which is no size", hint=f'write {LIMIT}="50 GB"'
        ) from error
