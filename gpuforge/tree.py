"""Reads untrusted folders: links cannot lead out, pipes and devices are not opened, and no file is skipped.

Paths are opened folder by folder, so that a link that is put there after a check is not followed (openat(2)).
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
}
"""The names of other kinds than files, by the format bits of their mode."""

_MOST_LINKS = 40  # of one path (MAXSYMLINKS of linux/namei.h)
LONGEST = 2000  # bytes of a path below its root: whole paths may have 4096 (PATH_MAX of linux/limits.h)
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # it is the caller's: an action finds its inputs by links
_FOLDER = _ROOT | os.O_NOFOLLOW
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # to look further from there, not to read
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class TreeEntry(NamedTuple):
    """A file, folder, link or other thing: its path below the root, what lstat(2) says of it, and a link's target."""

    path: str
    stat: os.stat_result
    link: str = ""

    @property
    def kind(self) -> int:
        """The format bits of its mode."""
        return stat.S_IFMT(self.stat.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder itself; a link to one is not."""
        return self.kind == stat.S_IFDIR


def leads_out(root: Path, entry: TreeEntry) -> bool:
    """Return whether a link below `root` leads out of it, also by way of other links or of folders above."""
    return bool(entry.link) and leaves(root, entry.path)


def leaves(root: Path, path: str) -> bool:
    """Return whether a path below `root` leads out of it by `..` or by links, also where it comes back.

    Each name is looked up by itself, as the kernel does: os.path.realpath fails where the whole path is too long, and
    so is led astray (https://nvd.nist.gov/vuln/detail/CVE-2025-4517). What is not there has no links.
    """
    if path.startswith("/"):
        return True
    names, depth, links = path.split("/")[::-1], 0, 0
    handle = os.open(root, _PLACE)
    try:
        while names:
            name = names.pop()
            if name in {"", "."}:
                continue
            depth += -1 if name == ".." else 1
            if depth < 0:
                return True
            target = _target(name, handle)
            if target is None:
                handle = _moved(handle, name)
                continue
            links += 1
            if target.startswith("/") or links > _MOST_LINKS:
                return target.startswith("/")  # the kernel follows no more
            depth -= 1
            names.extend(target.split("/")[::-1])
        return False
    finally:
        if handle >= 0:
            os.close(handle)


def _target(name: str, folder: int) -> str | None:
    """Return the target of a link in an open folder, None for anything else, and in one that is not there (-1)."""
    if folder < 0:
        return None
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _moved(folder: int, name: str) -> int:
    """Go on from an open folder to one in it, or above it; -1 if it is not a folder, and from there on."""
    if folder < 0:
        return folder
    try:
        return os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return -1
    finally:
        os.close(folder)


def walk(root: Path, leaves_out: Callable[[TreeEntry], bool] = lambda _: False) -> Iterator[TreeEntry]:
    """Yield all that lies below a folder, in name order within each folder, folders before what they hold.

    What `leaves_out` returns True for is not yielded, and not entered. Raises OSError for what cannot be read, and for
    paths that are too long to be used.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        with _opened(root, folder, _FOLDER) as handle:
            found = [_entry(handle, folder, name) for name in sorted(_names(handle))]
        kept = [each for each in found if not leaves_out(each)]
        yield from kept
        pending.extend(each.path for each in reversed(kept) if each.is_folder)


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def look(root: Path, path: str) -> TreeEntry:
    """Return what lies at a path below `root`; links are not followed. Raises OSError when it is not there."""
    folder, name = os.path.split(path)
    with _opened(root, folder, _FOLDER) as handle:
        return _entry(handle, folder, name)


def _entry(handle: int, folder: str, name: str) -> TreeEntry:
    path = f"{folder}/{name}" if folder else name
    if len(os.fsencode(path)) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, f"the path is longer than {LONGEST} bytes", f"{path[:60]}…")
    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    is_link = stat.S_ISLNK(found.st_mode)
    return TreeEntry(path, found, os.readlink(name, dir_fd=handle) if is_link else "")


@contextmanager
def _opened(root: Path, path: str, flags: int) -> Iterator[int]:
    """Open what lies at a path below `root`, through folders alone."""
    handle = os.open(root, _ROOT)
    try:
        names = path.split("/") if path else []
        for at, name in enumerate(names):
            last = at == len(names) - 1
            try:
                deeper = os.open(name, flags if last else _FOLDER, dir_fd=handle)
            except OSError as error:
                raise OSError(error.errno, _reason(error), f"{root}/{path}") from error
            os.close(handle)
            handle = deeper
        yield handle
    finally:
        os.close(handle)


def _reason(error: OSError) -> str:
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return "it is a link, or lies behind one, and was something else a moment ago"
    return error.strerror or str(error)


@contextmanager
def reading(root: Path, path: str, *, follow: bool = False) -> Iterator[int]:
    """Open a file below `root` to read it; with `follow`, through links that stay below `root`.

    Raises OSError for anything but a file and for what leads out of `root`.
    """
    if follow:
        inside = os.path.realpath(root)
        real = os.path.realpath(f"{inside}/{path}")
        if not real.startswith(f"{inside}/"):
            raise OSError(errno.ELOOP, "it leads out of its folder", f"{root}/{path}")
        root, path = Path(inside), real[len(inside) + 1 :]
    with _opened(root, path, _FILE) as handle:
        kind = stat.S_IFMT(os.fstat(handle).st_mode)
        if kind != stat.S_IFREG:
            what = KINDS.get(kind, "something else")
            raise OSError(errno.EINVAL, f"it is {what}, not a file", f"{root}/{path}")
        yield handle


def read(root: Path, path: str, most: int) -> bytes:
    """Return the first `most` bytes of a file below `root`; see `reading` for what it raises."""
    content = bytearray()
    with reading(root, path) as handle:
        while len(content) < most and (chunk := os.read(handle, most - len(content))):
            content += chunk
    return bytes(content)


def copy(root: Path, target: Path, members: Iterable[str] | None = None) -> None:
    """Copy a folder, or some files and links of it, over what lies in `target`; links stay links, modes are kept.

    Raises OSError for what is neither file, folder nor link.
    """
    target.mkdir(parents=True, exist_ok=True)
    for entry in walk(root) if members is None else (look(root, member) for member in members):
        place = target / entry.path
        if entry.is_folder:
            place.mkdir(exist_ok=True)
            continue
        if members is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        if entry.link:
            place.symlink_to(entry.link)
            continue
        with reading(root, entry.path) as source, place.open("wb") as stream:
            while os.sendfile(stream.fileno(), source, None, 1 << 30):
                pass
        place.chmod(entry.stat.st_mode & 0o777)


def remove(place: Path) -> None:
    """Remove a folder, if it is there, and all below it: folders without write permission, and of any depth.

    A file or link is removed, too. Raises OSError for what cannot be removed, and removes nothing where something is
    mounted below.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(place.lstat().st_mode):
            place.unlink()
    if mounted := _mounted_below(place):
        raise OSError(errno.EBUSY, "something is mounted there; unmount it", mounted)
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        pass
    except (OSError, RecursionError):
        _remove_flattened(place)


def _mounted_below(place: Path) -> str:
    """Return a mount point below a folder, or an empty string: what is mounted there may be anybody's files."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return ""
    prefix = os.fsencode(os.path.realpath(place)) + b"/"
    points = (re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), line.split()[4]) for line in lines)
    return next((os.fsdecode(each) for each in points if each.startswith(prefix)), "")


def _remove_flattened(place: Path) -> None:
    """Remove a folder by moving its deeper folders up: no path gets long, nothing recurses, two folders are open."""
    place.chmod(0o700)
    top = os.open(place, _FOLDER)
    token = uuid4().hex
    moved = 0
    try:
        while names := _names(top):
            for name in names:
                if not _unlinked(name, top):
                    inner = os.open(name, _FOLDER, dir_fd=top)
                    for deeper in _names(inner):
                        if not _unlinked(deeper, inner):
                            os.rename(deeper, f"{token}-{moved}", src_dir_fd=inner, dst_dir_fd=top)
                            moved += 1
                    os.close(inner)
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    place.rmdir()


def _unlinked(name: str, folder: int) -> bool:
    """Remove anything but a folder; make a folder writable, and return False."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return True
    os.chmod(name, 0o700, dir_fd=folder)
    return False
