"""Folders and stores of a command: where outputs are kept, and whether they can be written to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.cache_folder import VARIABLE as CACHE_VARIABLE
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import MissingError, UsageError
from gpuforge.manifest.sizes import size_in_bytes

if TYPE_CHECKING:
    from gpuforge.cluster.shared_store import SharedStore
    from gpuforge.execute.store import FolderStore

INPLACE = "inplace"  # in the cache folder: what `build --inplace` built, for each manifest and cell


def check(dist: Path, cache: Path, environ: Mapping[str, str]) -> None:
    """Raise MissingError for all unusable folders, each with its option or variable."""
    problems = [*_dist(dist), *_cache(cache, environ), *_work(environ)]
    if problems:
        raise MissingError.all_of(problems)


def _dist(dist: Path) -> Iterator[Diagnostic]:
    if reason := unwritable(dist):
        hint = "choose another folder with --output (-o), or change who may write there"
        yield Diagnostic(f"the output folder {dist} cannot be written to: {reason}", hint=hint)


def _cache(cache: Path, environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    source = f"which {CACHE_VARIABLE} names" if environ.get(CACHE_VARIABLE) else "which is the default"
    message = f"the cache folder {cache}, {source}, cannot be used"
    hint = f"set {CACHE_VARIABLE} to a folder of your own"
    reason = unwritable(cache)
    if not reason and cache.exists() and cache.stat().st_uid != os.geteuid():
        reason = f"it belongs to another user (uid {cache.stat().st_uid})"
    if not reason and cache.exists() and cache.stat().st_mode & 0o002:
        reason, hint = "every user can write to it", f"chmod o-w {cache}, or {hint}"
    if reason:
        yield Diagnostic(f"{message}: {reason}", hint=hint)


def _work(environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    from gpuforge.execute import workdir

    try:
        requested = workdir.requested(environ)
    except MissingError as error:
        yield from error.diagnostics
        return
    if requested and (reason := unwritable(requested)):
        hint = f"set {workdir.VARIABLE} to a folder of your own"
        yield Diagnostic(
            f"the working directory {requested}, which {workdir.VARIABLE} names, cannot be used: {reason}",
            hint=hint,
        )


def unwritable(folder: Path) -> str:
    """Return why a folder can be neither made nor written to; "" if it can."""
    try:
        there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    except OSError as error:  # a name that is too long, or a parent without permission to search
        return error.strerror or str(error)
    if not there.is_dir():
        return f"{there} is a file"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} may not be written to"
    for path in (folder.absolute(), *folder.absolute().parents):
        if path.is_symlink() and not path.exists():
            return f"{path} is a link to nothing"
    try:
        Path(tempfile.mkdtemp(prefix=".gpuforge-", dir=there)).rmdir()
    except OSError as error:  # /proc, a quota, or a file system that refuses more than its permissions show
        return f"no folder can be made in {there}: {error.strerror or error}"
    return ""


LIMIT = "GPUFORGE_STORE_CACHE"


def opened(cache: Path, environ: Mapping[str, str]) -> FolderStore | SharedStore:
    """Return the store in gpuforge's folder `cache`, shared with other machines if GPUFORGE_STORE is set.

    Raises UsageError for an invalid address or size, and MissingError if a package for it is missing.
    """
    if not (url := address(environ)):
        from gpuforge.execute.store import FolderStore

        return FolderStore(cache / "store")
    from gpuforge.cluster import shared_store

    return shared_store.opened(cache / "store", url, _most(environ) or shared_store.MOST_LOCAL)


def address(environ: Mapping[str, str]) -> str | None:
    """Return the address of the shared store, if there is one."""
    from gpuforge.cluster.objects import VARIABLE

    return environ.get(VARIABLE) or None


def _most(environ: Mapping[str, str]) -> int | None:
    text = environ.get(LIMIT)
    try:
        return size_in_bytes(text) if text else None
    except ValueError as error:
        raise UsageError.of(
            f"{LIMIT} is {text!r}, which is not a size", hint=f'write {LIMIT}="50 GB"'
        ) from error
