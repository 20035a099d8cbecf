"""The port to the place of a shared store: named bytes that appear whole or not at all."""

import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from gpuforge.errors import MissingError

VARIABLE = "GPUFORGE_STORE"
MOST = 1 << 30  # bytes of an object that is read into memory; a record of a million files has 200 MB


class ObjectsError(MissingError):
    """The place cannot be reached, read or written; the message has the place, the cause and what to do (exit 3)."""


class ListedObject(NamedTuple):
    """An object of a listing: its name, its bytes, and when it was written, by the place's own clock."""

    name: str
    size: int
    modified: float  # seconds since the epoch


class Objects(Protocol):
    """Objects by name: words with `/` between them. Every method raises ObjectsError when the place fails.

    In a folder something else may lie in an object's place, such as another folder, a pipe or a link.
    """

    @property
    def url(self) -> str:
        """Where the objects lie, for messages; it never holds credentials."""

    def fetch(self, name: str, target: BinaryIO, most: int) -> bool | None:
        """Write an object's bytes; None where it is not there, False for more than `most` or something else there."""

    def read(self, name: str, most: int = MOST) -> bytes | None:
        """Return an object's bytes, None where it is not there, b"" for more than `most` or something else there."""
        target = BytesIO()
        is_whole = self.fetch(name, target, most)
        return None if is_whole is None else target.getvalue() if is_whole else b""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one that is there."""

    def create(self, name: str, data: bytes) -> bool:
        """Write an object unless it is there; of several that try at once, one gets True.

        If an answer is lost, even that one may get False: a caller who must know reads the object.
        """

    def find(self, folder: str) -> list[ListedObject]:
        """Return all objects below a folder, in the order of their names."""

    def names(self, folder: str) -> list[str]:
        """Return the names of all objects below a folder, in order."""
        return [each.name for each in self.find(folder)]

    def remove(self, name: str) -> None:
        """Remove an object, or something else in its place, if it is there."""

    def upload(self, path: Path, name: str) -> None:
        """Write a file's bytes as an object, in place of one that is there."""

    def download(self, name: str, path: Path, most: int) -> bool:
        """Write an object's bytes to a new file; False, and no file, where `fetch` does not return True."""
        with path.open("xb") as target:
            is_whole = self.fetch(name, target, most)
        if not is_whole:
            path.unlink()
        return bool(is_whole)


def copied(read: Callable[[], bytes], target: BinaryIO, most: int) -> bool:
    """Write what `read` returns until it returns nothing; return whether these are no more than `most` bytes."""
    while target.tell() <= most and (chunk := read()):
        target.write(chunk)
    return target.tell() <= most


_NAMES = re.compile(r"KEY|SECRET|TOKEN|PASSW|CREDENTIAL|CONNECTION_STRING", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"(\w://[^\s?]+)\?[^\s\"']+")
_SHORTEST = 6  # characters of a value that is looked for
HIDDEN = "…"


def hidden(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without user names and queries of addresses, and without the values of secret variables."""
    text = _QUERY.sub(rf"\1?{HIDDEN}", _IN_ADDRESS.sub(f"{HIDDEN}@", text))
    values = (value for name, value in environ.items() if _NAMES.search(name) and len(value) >= _SHORTEST)
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text
