"""Puts a user's build in use by one rename, and removes leftovers of killed compilations."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from .. import layout
from ..builds import ACTIVE, SCHEMA, BuildsFolder, UserBuild, digest_of, object_of, place_in, places
from ..layout import BuildUnusable, folders_above, guard_place

_LOCK, _OWNER, _WORK, _HIDDEN = "lock", "owner", "work-", ".compile-"


@contextlib.contextmanager
def work(place: BuildsFolder) -> Iterator[Path]:
    """Yield a new folder to compile in, on the file system of the builds; it is removed afterwards.

    Leftovers of killed processes are removed, too. Raises OSError, and BuildUnusable if others could put code in.
    """
    for above in reversed(folders_above(place.folder)):
        if not above.exists():
            above.mkdir(mode=0o775, parents=True, exist_ok=True)  # not for all users, with any umask
    place.folder.mkdir(mode=0o755, exist_ok=True)
    guard_place(place.folder)
    with contextlib.ExitStack() as stack:
        with _locked(place):
            _clean(place)
            folder = _own_folder(stack, place.folder, _WORK)
        yield folder


@contextlib.contextmanager
def work_in(output: Path) -> Iterator[Path]:
    """Yield a new folder to compile in, in a folder of the user; leftovers of killed processes there are removed."""
    output.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _locked_folder(output):
            for left in output.glob(f"{_HIDDEN}*"):
                if _abandoned(left):
                    shutil.rmtree(left, ignore_errors=True)
            # The compiler runs in its own folder, where a relative path would lead elsewhere.
            folder = _own_folder(stack, output.absolute(), _HIDDEN)
        yield folder


def _own_folder(stack: contextlib.ExitStack, parent: Path, prefix: str) -> Path:
    """Make a folder that others do not touch while this process lives, and that is removed when the stack ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    owner = stack.enter_context((folder / _OWNER).open("w"))
    fcntl.flock(owner, fcntl.LOCK_EX)
    return folder


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder without a file in it, if its file system can."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def activate(place: BuildsFolder, library: Path, made: UserBuild) -> UserBuild:
    """Put the checked output in the `work` folder in use and remove the previous build; raises OSError.

    It is a library, or a folder of images.
    """
    with _locked(place):
        try:
            folder = Path(tempfile.mkdtemp(prefix="build-", dir=place.folder))
            folder.chmod(0o755)
            library.chmod(0o755)
            images = sorted(library.iterdir()) if library.is_dir() else []
            for image in images:
                image.chmod(0o644)
            for file in images or [library]:
                _sync(file)
            sha256 = digest_of(str(library / layout.INDEX if images else library))
            build = replace(made, file=folder / made.file.name, sha256=sha256)
            library.rename(build.file)
            content = {**asdict(build), "schema": SCHEMA, "build": folder.name, "file": build.file.name}
            draft = folder / ACTIVE
            draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            draft.chmod(0o644)
            _sync(draft)
            draft.replace(place.folder / ACTIVE)
            log_of(place).unlink(missing_ok=True)
        finally:
            _clean(place)
    return build


def remove(place: BuildsFolder) -> bool:
    """Take the build out of use and remove it with its log; return whether there was one. Raises OSError."""
    if not place.folder.is_dir():
        return False
    with _locked(place):
        there = (place.folder / ACTIVE).exists()
        (place.folder / ACTIVE).unlink(missing_ok=True)
        _clean(place)
        log_of(place).unlink(missing_ok=True)
    return there


def log_of(place: BuildsFolder) -> Path:
    """Return the file with the output of the last failed compilation, which the next successful one removes."""
    return place.folder / f"{object_of(place)}.log"


@contextlib.contextmanager
def _locked(place: BuildsFolder) -> Iterator[None]:
    with (place.folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clean(place: BuildsFolder) -> None:
    """Remove builds that are not in use, and leftovers of ended processes."""
    try:
        active = place.active()
    except BuildUnusable:
        active = None
    used = active.file.parent.name if active else ""
    for entry in place.folder.iterdir():
        if not entry.is_dir() or entry.name == used:
            continue
        if not entry.name.startswith(_WORK) or _abandoned(entry):
            shutil.rmtree(entry, ignore_errors=True)


def _abandoned(work: Path) -> bool:
    try:
        with (work / _OWNER).open("a") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its process lives
        return False
    return True


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


UNUSED_DAYS = 30


def remove_leftovers(user: Path) -> list[Path]:
    """Remove the unused places below the folder of all user builds and return them: see docs/users-machine.md."""
    return [place.folder for place in _all(user) if _left_over(place) and _removed(place)]


def _all(user: Path) -> Iterator[BuildsFolder]:
    try:
        packages = sorted(user.iterdir())
    except OSError:
        return
    for package in packages:
        yield from places(package)


def importable(user: Path) -> Iterator[tuple[str, UserBuild]]:
    """Yield the builds in use of all packages that this Python can import, each with its package."""
    for place in _all(user):
        try:
            build = place.active()
        except BuildUnusable:
            continue
        above = build and build.home and os.path.join(build.home, "__init__.py")
        if (
            build
            and above
            and os.path.isfile(above)
            and any(p and above.startswith(f"{p}{os.sep}") for p in sys.path)
        ):
            yield place.folder.parent.name, build


def _left_over(place: BuildsFolder) -> bool:
    try:
        build = place.active()
        used = place.used() if build else place.folder.stat().st_mtime
    except (BuildUnusable, OSError):
        return False
    if time.time() - used < UNUSED_DAYS * 86400:
        return False
    name = object_of(place)
    try:
        recipe = layout.recipe(layout.sources(build.home if build else "", name))
        return build is None or place_in(str(place.folder.with_name(name)), recipe).folder != place.folder
    except OSError:
        return True


def _removed(place: BuildsFolder) -> bool:
    shutil.rmtree(place.folder, ignore_errors=True)
    return not place.folder.exists()
