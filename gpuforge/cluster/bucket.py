"""Objects in a bucket, by fsspec: S3 (s3fs) and Google Cloud Storage (gcsfs). The one module that imports it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import fsspec

from gpuforge.cluster.objects import VARIABLE, ListedObject, Objects, ObjectsError, copied, hidden
from gpuforge.diagnostics import shown
from gpuforge.errors import GpuforgeError

_BLOCK = 1 << 24  # bytes of one request
_MODIFIED = ("LastModified", "updated", "mtime", "created")  # the libraries' names for the time of writing
_TAKEN = (409, 412)  # HTTP: Conflict, if another is writing it; Precondition Failed
_HINTS = {
    PermissionError: "check the credentials, and what they permit",
    FileNotFoundError: "make the bucket, or correct its name",
}


class RemoteObjects(Objects):
    """Objects below a URL. The library finds credentials by itself: its variables, files, the machine's role."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        with self._errors("connect"):
            # Listings are never cached, because other machines write.
            self._system, root = fsspec.url_to_fs(
                self._url, use_listings_cache=False, skip_instance_cache=True
            )
            self._root = root.rstrip("/")

    @property
    def url(self) -> str:
        """The bucket and the folder in it."""
        return self._url

    def fetch(self, name: str, target: BinaryIO, most: int) -> bool | None:
        """Write an object's bytes; None where it is not there, False for more than `most`."""
        with self._errors(f"read {name}"):
            try:
                path = self._path(name)
                with self._system.open(path, "rb", block_size=_BLOCK, cache_type="readahead") as source:
                    return copied(lambda: source.read(_BLOCK), target, most)
            except FileNotFoundError:
                return None

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one that is there."""
        with self._errors(f"write {name}"):
            self._system.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object unless it is there (If-None-Match of S3, ifGenerationMatch of Google)."""
        with self._errors(f"write {name}"):
            try:
                self._system.pipe_file(self._path(name), data, mode="create")
            except OSError as error:
                if _is_taken(error):
                    return False
                raise
            return True

    def find(self, folder: str) -> list[ListedObject]:
        """Return all objects below a folder, in the order of their names."""
        with self._errors(f"list {folder}"):
            try:
                found = self._system.find(self._path(folder), detail=True)
            except FileNotFoundError:
                return []
            start, below = len(self._root.lstrip("/")) + 1, f"{folder}/" if folder else ""
            made = (
                ListedObject(path.lstrip("/")[start:], facts["size"] or 0, _modified(facts))
                for path, facts in found.items()
            )
            # Some servers list an empty folder, which s3fs then reports as an object.
            made = (each for each in made if each.name.startswith(below) and not each.name.endswith("/"))
            return sorted(made, key=lambda each: each.name)

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with self._errors(f"remove {name}"), suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def upload(self, path: Path, name: str) -> None:
        """Write a file's bytes as an object, in place of one that is there."""
        with self._errors(f"write {name}"):
            self._system.put_file(str(path), self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    @contextmanager
    def _errors(self, act: str) -> Iterator[None]:
        """Turn the library's errors into an ObjectsError without credentials."""
        try:
            yield
        except GpuforgeError:
            raise
        except Exception as error:  # noqa: BLE001 - each library has its own kinds, not only OSError
            plain = isinstance(error, OSError) and error.strerror
            cause = shown(hidden(plain or f"{type(error).__name__}: {error}", os.environ))
            message = f"the shared store {self._url} fails: cannot {shown(act)}: {cause}"
            kinds = (hint for kind, hint in _HINTS.items() if isinstance(error, kind))
            hint = next(kinds, f"check the address, the credentials and the network, or unset {VARIABLE}")
            raise ObjectsError.of(message, hint=hint) from None


def _is_taken(error: OSError) -> bool:
    """Return whether a conditional write was refused: s3fs knows only AWS's own wording of 412, and not 409."""
    answer = getattr(error.__cause__, "response", None) or {}
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return isinstance(error, FileExistsError) or status in _TAKEN


def _modified(facts: dict[str, Any]) -> float:
    found = next((facts[name] for name in _MODIFIED if facts.get(name)), 0.0)
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    return found.timestamp() if isinstance(found, datetime) else float(found)
