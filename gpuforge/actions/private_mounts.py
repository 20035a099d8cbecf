"""Mounts that only this process and its children see, by Linux's mount namespaces, with or without root's rights.

https://man7.org/linux/man-pages/man7/mount_namespaces.7.html and user_namespaces.7.html
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000  # sched.h
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18  # sys/mount.h


def enter() -> bool:
    """Give this process private mounts, without changing its user; return whether the system allows it.

    A process with other threads cannot have them without root's rights.
    """
    child = os.fork()  # a partial success could not be undone, so a child tries first
    if child == 0:
        with suppress(BaseException):
            _enter()
            cover_folder(Path.cwd())
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1]:
        return False
    _enter()
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


def _enter() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEW_MOUNTS)
    except PermissionError:
        _call("unshare", _NEW_MOUNTS | _NEW_USER)
        own = Path("/proc/self")
        (own / "setgroups").write_text("deny")
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
    _call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)  # other processes do not get the mounts


def _call(function: str, *arguments: bytes | int | None) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
