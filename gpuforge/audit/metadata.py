"""What a wheel says of itself: its file name, and its `.dist-info` folder."""

import csv
import posixpath
import re
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple, Self

from gpuforge.audit.inputs import Input
from gpuforge.wheel import names, record
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.facts import Identity, Record

_LARGEST = {"WHEEL": 16 << 20, "METADATA": 16 << 20, "RECORD": 512 << 20}  # bytes; larger ones are none
# https://github.com/karellen/wheel-axle: made when Python first starts after installation
_LINKS = "symlinks.txt"


class Metadata(NamedTuple):
    """What the `.dist-info` folder says."""

    tags: tuple[str, ...]
    requires: tuple[str, ...]
    record: Record | None
    problems: tuple[str, ...]
    project: str = ""
    version: str = ""
    folder: str = ""  # its own name, without ".dist-info"
    purelib: bool = False
    links: Mapping[str, str] = MappingProxyType({})  # symbolic links and what they lead to, as members
    python: str = ""  # Requires-Python

    @property
    def identities(self) -> tuple[Identity, ...]:
        """Return what METADATA and the folder's name say that the wheel is."""
        name, _, version = self.folder.partition("-")
        said = (
            Identity("METADATA", self.project, self.version),
            Identity("the .dist-info folder", name, version),
        )
        return said if self.folder else ()

    @classmethod
    def of(cls, archive: Archive, folders: Collection[str]) -> Self:
        """Read it from the first of these `.dist-info` folders. Raises MalformedError for a broken archive."""
        problems = [f"it has {len(folders)} .dist-info folders"] if len(folders) > 1 else []
        folder = min(folders)
        files = {f"{folder}/{name}": name for name in _LARGEST}
        found = {
            files[m.name]: m for m in archive.members if m.name in files and m.size <= _LARGEST[files[m.name]]
        }
        problems += [f"its .dist-info folder has no {name}" for name in _LARGEST if name not in found]
        wheel, metadata = (
            _headers(archive.data(found[name]).decode("utf-8", "replace") if name in found else "")
            for name in ("WHEEL", "METADATA")
        )
        tags = {tag for text in wheel.get("tag", ()) for tag in names.expanded(text)}
        listed = None
        if "RECORD" in found:
            try:
                listed = record.read(archive.chunks(found["RECORD"]), archive.members)
            except csv.Error:
                problems.append("its RECORD is not a list of comma-separated values")
        return cls(
            tuple(sorted(tags)),
            tuple(metadata.get("requires-dist", ())),
            listed,
            tuple(problems),
            names.normalized(metadata.get("name", [""])[0]),
            metadata.get("version", [""])[0],
            folder.removesuffix(".dist-info"),
            wheel.get("root-is-purelib", [""])[0].lower() == "true",
            _links(archive, folder),
            metadata.get("requires-python", [""])[0],
        )


NONE = Metadata((), (), None, ())  # of binaries that are in no wheel


def identity(source: Input, texts: Metadata) -> tuple[str, str, tuple[str, ...]]:
    """Return project, version and tags: of a file name's promise, and where there is none of the metadata's."""
    if source.form in {"wheel", "nested"}:
        return _file_name(PurePosixPath(source.label).name)
    return texts.project, texts.version, texts.tags


def _links(archive: Archive, folder: str) -> Mapping[str, str]:
    """Return the symbolic links that wheel-axle makes: lines of the link, what it leads to, and whether to a folder."""
    listed = [m for m in archive.members if m.name == f"{folder}/{_LINKS}" and m.size <= _LARGEST["WHEEL"]]
    lines = archive.data(listed[0]).decode("utf-8", "replace").splitlines() if listed else []
    rows = (line.rsplit(",", 2) for line in lines)
    return {
        row[0]: posixpath.normpath(posixpath.join(posixpath.dirname(row[0]), row[1]))
        for row in rows
        if len(row) == 3
    }


def _file_name(name: str) -> tuple[str, str, tuple[str, ...]]:
    if promised := names.of_file(name):
        return promised
    parts = name.removesuffix(".whl").split("-")
    return (names.normalized(parts[0]), parts[1], ()) if len(parts) > 1 else ("", "", ())


def _headers(text: str) -> dict[str, list[str]]:
    """Return the fields before the first empty line by their names in lower case (Core metadata, RFC 822)."""
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            break
        if line[0] in " \t" and values:
            values[-1] += f"\n{line}"
            continue
        name, colon, value = line.partition(":")
        if not colon:
            break  # no field: the text begins
        values = fields.setdefault(name.strip().lower(), [])
        values.append(value.strip())
    return {name: list(map(_readable, values)) for name, values in fields.items()}


def _readable(value: str) -> str:
    """Leave out numbers that no version has: Python refuses to read one of thousands of digits."""
    return re.sub(r"(?<!\d)\d{1000,}", "…", value) if len(value) >= 1000 else value
