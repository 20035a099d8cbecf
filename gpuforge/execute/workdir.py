"""Working directories of local actions: a fixed path each, for equal results and compiler cache hits."""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuforge import locks, tree
from gpuforge.errors import MissingError
from gpuforge.tree import remove

if TYPE_CHECKING:
    from gpuforge.execute.runners.runner import InputPath

VARIABLE = "GPUFORGE_WORK"
_MARK = ".gpuforge-work"  # in each project's folder
DEFAULT = Path("/tmp/gpuforge")  # noqa: S108 - its owner and mode are checked before it is used
# Every staged file has this time: tools that write times into archives see the same one on every run.
# It is later than 1980, where ZIP begins, in every time zone.
STAGED_TIME = 1577836800  # 2020-01-01T00:00:00Z


def root(environ: Mapping[str, str]) -> Path:
    """Return the folder for working directories; it is made if necessary, for this user alone.

    `GPUFORGE_WORK` names it; otherwise it is /tmp/gpuforge, or /tmp/gpuforge-UID if that belongs to another user.
    Raises MissingError if no folder is safe.
    """
    if folder := requested(environ):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            message = f"the working directory {folder}, named by {VARIABLE}, cannot be made: {error.strerror}"
            raise MissingError.of(message, hint=f"set {VARIABLE} to a folder you can write to") from error
        return requested(environ) or folder  # another process may have made it just now
    for folder in (DEFAULT, DEFAULT.with_name(f"{DEFAULT.name}-{os.geteuid()}")):
        if _own(folder):
            return folder
    message = f"{DEFAULT} and {DEFAULT}-{os.geteuid()} belong to somebody else or can be written by others"
    raise MissingError.of(message, hint=f"set {VARIABLE} to a folder of your own")


def requested(environ: Mapping[str, str]) -> Path | None:
    """Return the folder that `GPUFORGE_WORK` names, None if it is not set.

    Raises MissingError for a path that compilers or builds cannot use, or that other users could change.
    """
    if not environ.get(VARIABLE):
        return None
    folder = Path(environ[VARIABLE]).absolute()
    message = f"the working directory {folder}, named by {VARIABLE}, cannot be used"
    if odd := re.search(r"[^\w@%+=,./-]", str(folder)):
        what = "a space" if odd[0] == " " else f"the character {odd[0]!r}"
        raise MissingError.of(
            f"{message}: it has {what} in its path, which breaks many builds",
            hint=f"set {VARIABLE} to a folder of plain letters and digits",
        )
    if reason := _not_private(folder):
        what, hint = reason
        own = f"set {VARIABLE} to a folder of your own"
        raise MissingError.of(f"{message}: {what}", hint=f"{hint}, or {own}" if hint else own)
    return folder


def _not_private(folder: Path) -> tuple[str, str] | None:
    """Return why other users could change files in a folder, and what to do; None if they cannot.

    They can if the folder or one above it is theirs, or if they can rename it. For a folder that does not exist yet,
    those above it are checked.
    """
    if folder.is_symlink():
        return f"it is a link, to {folder.readlink()}", f"set {VARIABLE} to what it names"
    ours = {os.geteuid(), 0, _nobody()}
    for each in dict.fromkeys([folder, *folder.parents, *Path(os.path.realpath(folder)).parents]):
        try:
            found = each.stat()
        except OSError:  # it is made later, if possible
            continue
        it = "it" if each == folder else f"{each}, above it,"
        if found.st_uid not in (ours if each != folder else {os.geteuid()}):
            return f"{it} belongs to another user (uid {found.st_uid})", ""
        shared = found.st_mode & (0o022 if each == folder else 0o002)
        if stat.S_ISDIR(found.st_mode) and shared and (each == folder or not found.st_mode & stat.S_ISVTX):
            who = "others can write to it" if each == folder else f"others can write to {each}, above it"
            return f"{who} (mode {stat.S_IMODE(found.st_mode):o})", f"chmod go-w {each}"
    return None


def _nobody() -> int:
    """Return the user number that the kernel shows for users without a number in this user namespace, such as root."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return 0


def _own(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


class WorkPaths(NamedTuple):
    """The paths of one action's run: its working directory, fixed names for its outputs and its inputs, and `changes`.

    What it writes into laid inputs goes into the last one.
    """

    work: Path
    out: Path
    inputs: Path
    changes: Path

    @classmethod
    def below(cls, folder: Path, action: str) -> WorkPaths:
        """Return the paths of an action, by its id, below a project's folder."""
        return cls.of(folder / locks.file_name(action))

    @classmethod
    def of(cls, work: Path) -> WorkPaths:
        """Return the paths of a working directory."""
        return cls(work, *(work.with_name(f"{work.name}.{each}") for each in ("out", "in", "changes")))

    def clear(self) -> None:
        """Remove all of them."""
        if self.out.is_symlink():
            self.out.unlink()
        for folder in (self.out, self.inputs, self.changes, self.work):
            remove(folder)


def project_folder(root: Path, project: str) -> Path:
    """Make and return the folder of a project's working directories; remove leftovers of killed runs below `root`.

    Only folders with gpuforge's mark are looked into: `root` may have others, when the user named it.
    """
    folder = root / project
    folder.mkdir(exist_ok=True)
    (folder / _MARK).touch()
    for mark in root.glob(f"*/{_MARK}"):
        for lock in mark.parent.glob("*.lock"):
            _sweep(WorkPaths.of(lock.with_suffix("")), lock)
    return folder


def _sweep(paths: WorkPaths, lock: Path) -> None:
    """Remove the leftovers of an action if no process has its lock."""
    if any(os.path.lexists(each) for each in paths):
        with suppress(OSError):  # the next run tries again
            if (claim := locks.claim(lock)) is not None:
                with claim:
                    paths.clear()


@contextmanager
def claimed(paths: WorkPaths, stop: threading.Event) -> Iterator[bool]:
    """Claim the paths for one action: empty at the start, removed at the end. False if `stop` was set while waiting.

    Another gpuforge that builds the same project waits meanwhile.
    """
    while (claim := locks.claim(paths.work.with_name(f"{paths.work.name}.lock"))) is None:
        if stop.wait(0.1):
            yield False
            return
    with claim:
        try:
            paths.clear()
            paths.work.mkdir()
            yield True
        finally:
            with suppress(OSError):
                paths.clear()


def keep(work: Path, folder: Path | None, action: str) -> Path | None:
    """Move the working directory of a failed action into `folder`, replacing an earlier one; return its new path.

    Nothing is kept without a folder, or if moving fails: the failure of the action matters more.
    """
    if folder is None:
        return None
    kept = folder / locks.file_name(action)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove(kept)
        shutil.move(work, kept)
        work.mkdir()
    except OSError:
        return None
    return kept


@contextmanager
def brought_back(work: Path, folder: Path, action: str) -> Iterator[None]:
    """Put what `keep` moved to `folder` in place of `work`, and keep it again afterwards; nothing if none was kept."""
    kept = folder / locks.file_name(action)
    if not kept.is_dir():
        yield
        return
    remove(work)
    shutil.move(kept, work)
    try:
        yield
    finally:
        keep(work, folder, action)


def stage(source: InputPath, target: Path) -> None:
    """Copy an input to `target`: writable, with fixed times and modes, links kept as links.

    Raises OSError when something cannot be read or written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.members is not None or source.path.is_dir():
        tree.copy(source.path, target, source.members)
        for each in tree.walk(target):
            _settle_one(target / each.path, 0o755 if each.is_folder or each.stat.st_mode & 0o100 else 0o644)
        _settle_one(target, 0o755)
    else:
        shutil.copy(source.path, target)
        _settle_one(target, 0o755 if target.stat().st_mode & 0o100 else 0o644)


def _settle_one(path: Path, mode: int) -> None:
    if not path.is_symlink():
        path.chmod(mode)
    os.utime(path, (STAGED_TIME, STAGED_TIME), follow_symlinks=False)
