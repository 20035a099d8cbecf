"""The wheels on PyPI: their index, by its JSON API (https://docs.pypi.org/api/json/), and parts of their files.

Of a file only what is asked for is read, by HTTP range requests.
"""

from __future__ import annotations

import email
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urljoin

import requests
from packaging.utils import parse_wheel_filename
from packaging.version import Version
from random_access import RandomAccess

from gpuforge.wheel.filename import serves


class RemoteFile(RandomAccess):
    """A seekable file over HTTP range requests; remembers the tail, where a zip keeps its directory."""

    def __init__(self, url: str, size: int, tail: int = 1 << 18) -> None:
        super().__init__(size)
        self._url = url
        self._tail_start = max(0, size - tail)
        self._tail = self._fetch(self._tail_start, size)

    def _fetch(self, start: int, stop: int) -> bytes:
        answer = session().get(self._url, headers={"Range": f"bytes={start}-{stop - 1}"}, timeout=120)
        answer.raise_for_status()
        if answer.status_code != requests.codes.partial_content and len(answer.content) != stop - start:
            raise OSError(f"{self._url}: the server does not answer range requests")
        return answer.content

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes (to the end if negative)."""
        stop = self.stop(size)
        start, self._at = self._at, max(self._at, stop)
        if start >= stop:
            return b""
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : stop - self._tail_start]
        return self._fetch(start, stop)


@dataclass(frozen=True)
class Wheel:
    """One wheel file on PyPI."""

    package: str
    version: str
    filename: str
    url: str
    sha256: str
    size: int
    uploaded: datetime

    def serves(self, machine: str) -> bool:
        """Say whether this Linux machine can install it."""
        return any(serves(tag.platform, machine) for tag in parse_wheel_filename(self.filename)[3])

    def archive(self) -> zipfile.ZipFile:
        """Open it without downloading it."""
        return zipfile.ZipFile(RemoteFile(self.url, self.size))


@cache
def session() -> requests.Session:
    """Return the one connection pool."""
    return requests.Session()


@cache
def wheels_of(package: str) -> Mapping[str, tuple[Wheel, ...]]:
    """Return every version of `package` with its wheels, newest version last; pre-releases left out."""
    url = f"https://pypi.org/pypi/{package}/json"
    answer = session().get(url, timeout=60)
    if answer.status_code == requests.codes.not_found:
        return {}
    answer.raise_for_status()
    found = {
        version: tuple(
            Wheel(package, version, f["filename"], urljoin(answer.url, f["url"]), f["digests"]["sha256"], f["size"],
                  datetime.fromisoformat(f["upload_time"]))
            for f in files
            if f["filename"].endswith(".whl") and not f.get("yanked")
        )
        for version, files in answer.json()["releases"].items()
        if not Version(version).is_prerelease
    }  # fmt: skip
    return {v: found[v] for v in sorted(found, key=Version) if found[v]}


@cache
def metadata_of(wheel: Wheel) -> Any:
    """Return the METADATA of a wheel."""
    with wheel.archive() as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))
