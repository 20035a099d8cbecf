"""Objects as files of a folder, also one that several machines mount (NFS); and from an address to its objects."""

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from uuid import uuid4

from gpuforge import tree
from gpuforge.cluster.objects import VARIABLE, ListedObject, Objects, ObjectsError, copied
from gpuforge.diagnostics import shown
from gpuforge.errors import MissingError, UsageError

_PARTS = ".parts"  # incomplete objects
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FILE = {errno.EINVAL, errno.ELOOP, errno.ENXIO}  # of `tree.reading`: a folder or pipe, a link, a socket
_CHUNK = 1 << 22  # bytes
_TRIES = 100
_HINTS = {
    errno.ENOSPC: "free some space there: `gpuforge cache prune --shared --older 30d`",
    errno.EDQUOT: "free some space there: `gpuforge cache prune --shared --older 30d`",
    errno.EACCES: "check who may write there",
    errno.EROFS: "check who may write there",
    errno.EPERM: "the file system needs hard links",
    errno.EOPNOTSUPP: "the file system needs hard links",
}


class FolderObjects(Objects):
    """Objects below `root`, each a file that gets its name when it is complete: by rename, or by a link."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def url(self) -> str:
        """The folder."""
        return str(self.root)

    def fetch(self, name: str, target: BinaryIO, most: int) -> bool | None:
        """Write an object's bytes; None where it is not there, False for more than `most` or no file."""
        with self._errors("read", name):
            try:
                with tree.reading(self.root, name) as source:
                    return copied(lambda: os.read(source, _CHUNK), target, most)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                if error.errno in _NO_FILE:
                    return False
                raise

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one that is there."""
        self._write(name, BytesIO(data))

    def upload(self, path: Path, name: str) -> None:
        """Write a file's bytes as an object, in place of one that is there."""
        with path.open("rb") as source:
            self._write(name, source)

    def _write(self, name: str, source: BinaryIO) -> None:
        with self._errors("written", name), self._part() as (part, stream):
            shutil.copyfileobj(source, stream, _CHUNK)
            self._finish(stream)
            self._named(name, part.rename)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object unless it is there: link(2) is done by one alone, also over NFS."""
        with self._errors("written", name), self._part() as (part, stream):
            stream.write(data)
            self._finish(stream)
            try:
                self._named(name, lambda place: os.link(part, place))
            except FileExistsError:
                return part.stat().st_nlink > 1  # the server did it, but its answer was lost: link(2), BUGS
            return True

    def find(self, folder: str) -> list[ListedObject]:
        """Return all objects below a folder, in the order of their names."""
        top = self.root / folder
        with self._errors("listed", folder):
            found: list[ListedObject] = []
            for place, folders, files in os.walk(top):
                with suppress(ValueError):
                    folders.remove(_PARTS)
                for each in files:
                    with suppress(FileNotFoundError):  # removed just now
                        path = Path(place, each)
                        stat = path.lstat()
                        found.append(
                            ListedObject(path.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime)
                        )
            return sorted(found, key=lambda each: each.name)

    def remove(self, name: str) -> None:
        """Remove an object, or what else lies there, and the folders that become empty."""
        place = self.root / name
        with self._errors("removed", name), suppress(NotADirectoryError):
            tree.remove(place)
        with suppress(OSError):
            for folder in place.parents:
                if folder == self.root:
                    break
                folder.rmdir()

    @contextmanager
    def _part(self) -> Iterator[tuple[Path, BinaryIO]]:
        part = self._folder(self.root / _PARTS) / uuid4().hex
        try:
            with os.fdopen(os.open(part, _NEW, 0o666), "wb") as stream:
                yield part, stream
        finally:
            part.unlink(missing_ok=True)

    @staticmethod
    def _finish(stream: BinaryIO) -> None:
        stream.flush()
        os.fsync(stream.fileno())

    def _named(self, name: str, give: Callable[[Path], object]) -> None:
        """Give a complete object its name; its folder may vanish meanwhile, when another process empties it."""
        place = self.root / name
        for _ in range(_TRIES):
            self._folder(place.parent)
            try:
                give(place)
            except FileNotFoundError:
                continue
            except IsADirectoryError:
                tree.remove(place)
                continue
            return
        raise OSError(errno.ENOENT, "its folder vanishes again and again")

    def _folder(self, folder: Path) -> Path:
        """Make a folder below the root. What lies in its place is removed, a link also: it would lead out."""
        place = self.root
        for part in folder.relative_to(self.root).parts:
            place /= part
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(place.lstat().st_mode):
                    place.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def _errors(self, done: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            cause = error.strerror or str(error)
            message = f"the shared store {self.url} fails: {shown(name)} cannot be {done}: {cause}"
            hint = _HINTS.get(error.errno or 0, f"check the folder, or unset {VARIABLE}")
            raise ObjectsError.of(message, hint=hint) from error


_PACKAGES = {
    "s3": ("s3fs", "s3"),
    "gs": ("gcsfs", "gcs"),
}  # scheme → its package, and gpuforge's extra with it
_SHAPE = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def connect(url: str) -> Objects:
    """Return the objects at an address: a folder's path, `file:///…`, `s3://BUCKET/…` or `gs://BUCKET/…`.

    Nothing is read or written yet. Raises UsageError for other addresses and for one with credentials in it, and
    MissingError where the package for it is not installed.
    """
    scheme = match[1].lower() if (match := _SHAPE.match(url)) else ""
    if not scheme or scheme == "file":
        return FolderObjects(_folder(url.removeprefix("file://") if scheme else url))
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError.of(
            f"the address of the shared store at {scheme}:// has a user name, a password or a query in it",
            hint="write s3://BUCKET/FOLDER; credentials are found as AWS's and Google's own programs find them",
        )
    if scheme not in _PACKAGES:
        raise UsageError.of(
            f"{scheme}:// is not an address of a shared store", hint="use a folder, s3:// or gs://"
        )
    if not parts.netloc:
        raise UsageError.of(f"{url} names no bucket", hint=f"write {scheme}://BUCKET/FOLDER")
    package, extra = _PACKAGES[scheme]
    if find_spec(package) is None:
        message = f"a shared store at {scheme}:// needs the Python package {package}, which is not installed"
        raise MissingError.of(message, hint=f"pip install {package}, or gpuforge with its extra {extra}")
    from gpuforge.cluster.bucket import RemoteObjects  # noqa: PLC0415 - an extra

    return RemoteObjects(url)


def _folder(path: str) -> Path:
    folder = Path(path)
    if not folder.is_absolute():
        message = f"{path!r} is not an address of a shared store"
        raise UsageError.of(message, hint=f"set {VARIABLE} to a folder's absolute path, s3:// or gs://")
    return folder
