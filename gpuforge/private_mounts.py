"""Mounts that only this process and its children see."""

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple


class Overlay(NamedTuple):
    """A folder that is seen at `place` and can be changed there: what is written goes into `changes`, not into it."""

    folder: str
    changes: str
    place: str


_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000  # sched.h
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18  # sys/mount.h


def enter_if_allowed() -> bool:
    """Give this process private mounts, without changing its user; return whether the system allows it.

    A process with other threads cannot have them without root's rights.
    """
    child = os.fork()  # a partial success could not be undone, so a child tries first
    if child == 0:
        with suppress(BaseException):
            enter()
            cover_folder(Path.cwd())
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1]:
        return False
    enter()
    return True


def protect(folder: Path) -> None:
    """Make a folder and all below it read-only; raises OSError."""
    path = os.fsencode(folder.resolve())
    _call("mount", path, path, None, _BIND | _RECURSIVE, None)
    _call("mount", None, path, None, _BIND | _REMOUNT | _READ_ONLY, None)


def cover_folder(folder: Path) -> None:
    """Make a folder look empty; raises OSError."""
    _call("mount", b"gpuforge", os.fsencode(folder), b"tmpfs", _READ_ONLY, b"size=4k")


def cover_file(file: Path, by: Path) -> None:
    """Make a file look like another; raises OSError."""
    _call("mount", os.fsencode(by), os.fsencode(file), None, _BIND, None)


def enter() -> bool:
    """Give this process private mounts; return whether that took a user namespace. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    needs_user = False
    try:
        _call("unshare", _NEW_MOUNTS)
    except PermissionError:
        needs_user = True
        _call("unshare", _NEW_MOUNTS | _NEW_USER)
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
    _call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)  # other processes do not get the mounts
    return needs_user


def _call(function: str, *arguments: bytes | int | None) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def lay(overlays: Sequence[Overlay]) -> None:
    """Give this process private mounts with these overlays; raises OSError."""
    of_user = ",userxattr" if enter() else ""
    for folder, changes, place in overlays:
        new, spare = Path(changes, "new"), Path(changes, "spare")
        for each in (new, spare, Path(place)):
            each.mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={folder},upperdir={new},workdir={spare}{of_user}"
        if any(sign in text for text in (folder, changes) for sign in ",:\\"):
            raise OSError(errno.EINVAL, "overlays cannot have this in their paths", folder)
        _call("mount", b"gpuforge", os.fsencode(place), b"overlay", 0, os.fsencode(options))


@cache
def can_lay(folder: Path, scratch: Path) -> bool:
    """Return whether the system allows an overlay of a folder, with its changes in `scratch`; a child tries."""
    with TemporaryDirectory(prefix="overlay-", dir=scratch) as trial:
        words = (str(folder), f"{trial}/changes", f"{trial}/place")
        command = [sys.executable, "-I", __file__, *words]
        return not subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    lay([Overlay(*sys.argv[1:])])
