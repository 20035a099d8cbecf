"""The store of a command: this machine's folder, combined with the shared one of GPUFORGE_STORE if it is set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.errors import UsageError
from gpuforge.execute.objects.port import VARIABLE
from gpuforge.execute.objects.secrets import hidden
from gpuforge.execute.store import FolderStore
from gpuforge.manifest.sizes import size_in_bytes
from gpuforge.toolchains import sccache

if TYPE_CHECKING:
    from gpuforge.execute.shared.store import SharedStore

LIMIT = "GPUFORGE_STORE_CACHE"
_BUCKETS = ("SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET")
_PUBLIC = (
    "_BUCKET",
    "_ENDPOINT",
    "_ENDPOINTS",
    "_REGION",
    "_KEY_PREFIX",
    "_USE_SSL",
    "_RW_MODE",
    "_CACHE_SIZE",
    "_DB",
)


def opened(cache: Path) -> FolderStore | SharedStore:
    """Return the store in gpuforge's folder `cache`, shared with other machines if GPUFORGE_STORE is set.

    Raises UsageError for an invalid address or size, and MissingError if a package for it is missing.
    """
    if not (url := address()):
        return FolderStore(cache / "store")
    from gpuforge.execute.shared import opening

    return opening.opened(cache / "store", url, _most() or opening.MOST)


def address() -> str | None:
    """Return the address of the shared store, if there is one."""
    return os.environ.get(VARIABLE) or None


def for_jobs() -> list[str]:
    """Return what a CI system's jobs need to share the store and the compiler cache that are set here.

    These are variables with their values, only the names of secret ones, and packages that must be installed.
    """
    back_end = "" if os.environ.get(sccache.OFF) else sccache.back_end(os.environ)
    own = ("SCCACHE_",) if back_end else ()
    keys = ("AWS_", "GOOGLE_") if "://" in (address() or "") or back_end in _BUCKETS else ()
    names = [name for name in (VARIABLE, sccache.IDENTITY) if os.environ.get(name)]
    found = [*names, *sorted(name for name in os.environ if name.startswith((*own, *keys)))]
    secrets = [name for name in found if _is_secret(name)]
    settings = [f"{name}={os.environ[name]}" for name in found if name not in secrets]
    if not settings:
        return []
    also = f", and {', '.join(secrets)} as secrets" if secrets else ""
    notes = [f"note: set {', '.join(settings)} in every job{also}"]
    if back_end:
        notes.append(
            f"note: install gpuforge with its extra sccache in every job: containers need it for {back_end}"
        )
    return notes


def _is_secret(name: str) -> bool:
    """Return whether the value of a variable is not shown: those of unknown variables may be secret."""
    is_known = name in {VARIABLE, sccache.IDENTITY} or name.endswith(_PUBLIC)
    return not is_known or hidden(os.environ[name], {}) != os.environ[name]


def _most() -> int | None:
    text = os.environ.get(LIMIT)
    try:
        return size_in_bytes(text) if text else None
    except ValueError as error:
        raise UsageError.of(
            f"{LIMIT} is {text!r}, which is not a size", hint=f'write {LIMIT}="50 GB"'
        ) from error
