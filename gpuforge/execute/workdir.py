"""Working directories of local actions: a fixed path each, for equal results and compiler cache hits."""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpuforge import tree
from gpuforge.errors import MissingError
from gpuforge.execute import locks
from gpuforge.execute.runners.runner import Source
from gpuforge.tree import remove

VARIABLE = "GPUFORGE_WORK"
DEFAULT = Path("/tmp/gpuforge")  # noqa: S108 - its owner and mode are checked before it is used
# Every staged file has this time: tools that write times into archives see the same one on every run.
# It is later than 1980, where ZIP begins, in every time zone.
STAGED_TIME = 1577836800  # 2020-01-01T00:00:00Z


def root(environ: Mapping[str, str]) -> Path:
    """Return the folder for working directories, made for this user alone if it was not there.

    `GPUFORGE_WORK` names it; otherwise it is /tmp/gpuforge, or /tmp/gpuforge-UID where that is another's.
    Raises MissingError where no folder is safe.
    """
    if folder := requested(environ):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            message = f"the working directory {folder}, named by {VARIABLE}, cannot be made: {error.strerror}"
            raise MissingError.of(message, hint=f"set {VARIABLE} to a folder you can write to") from error
        return folder
    for folder in (DEFAULT, DEFAULT.with_name(f"{DEFAULT.name}-{os.geteuid()}")):
        if _own(folder):
            return folder
    message = f"{DEFAULT} and {DEFAULT}-{os.geteuid()} belong to somebody else or can be written by others"
    raise MissingError.of(message, hint=f"set {VARIABLE} to a folder of your own")


def requested(environ: Mapping[str, str]) -> Path | None:
    """Return the folder that `GPUFORGE_WORK` names, None where it names none.

    Raises MissingError for one that compilers and builds could not bear, or that others could change.
    """
    if not environ.get(VARIABLE):
        return None
    folder = Path(environ[VARIABLE]).absolute()
    message = f"the working directory {folder}, named by {VARIABLE}, cannot be used"
    if odd := re.search(r"[^\w@%+=,./-]", str(folder)):
        what = "a space" if odd[0] == " " else f"the character {odd[0]!r}"
        raise MissingError.of(
            f"{message}: it has {what} in its path, which many builds cannot bear",
            hint=f"set {VARIABLE} to a folder of plain letters and digits",
        )
    try:
        found = folder.stat()
    except OSError:  # it is made when it is needed, or cannot be
        return folder
    hint = f"set {VARIABLE} to a folder of your own"
    if found.st_uid != os.geteuid():
        raise MissingError.of(f"{message}: it belongs to another user (uid {found.st_uid})", hint=hint)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o022:
        mode = f"{stat.S_IMODE(found.st_mode):o}"
        raise MissingError.of(
            f"{message}: others can write to it (mode {mode})", hint=f"chmod go-w {folder}, or {hint}"
        )
    return folder


def _own(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


@dataclass(frozen=True, slots=True)
class WorkPaths:
    """The paths of one action's run: its working directory, and fixed names for its outputs and its inputs."""

    work: Path
    out: Path
    inputs: Path

    @classmethod
    def below(cls, folder: Path, action: str) -> WorkPaths:
        """Return the paths of an action, by its id, below a project's folder."""
        name = locks.file_name(action)
        return cls(folder / name, folder / f"{name}.out", folder / f"{name}.in")

    def clear(self) -> None:
        """Take everything away."""
        if self.out.is_symlink():
            self.out.unlink()
        for folder in (self.out, self.inputs, self.work):
            remove(folder)


@contextmanager
def claimed(paths: WorkPaths, stop: threading.Event) -> Iterator[bool]:
    """Claim the paths for one action: empty at the start, removed at the end; False when `stop` was set instead.

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


def stage(source: Source, target: Path) -> None:
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
