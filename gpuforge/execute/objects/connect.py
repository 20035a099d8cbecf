"""From the address of a shared store to its objects."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from gpuforge.errors import MissingError, UsageError
from gpuforge.execute.objects.folder import FolderObjects
from gpuforge.execute.objects.port import VARIABLE, Objects

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
    from gpuforge.execute.objects.bucket import RemoteObjects  # noqa: PLC0415 - an extra

    return RemoteObjects(url)


def _folder(path: str) -> Path:
    folder = Path(path)
    if not folder.is_absolute():
        message = f"{path!r} is not an address of a shared store"
        raise UsageError.of(message, hint=f"set {VARIABLE} to a folder's absolute path, s3:// or gs://")
    return folder
