"""The files in a wheel's `.dist-info` folder: METADATA, WHEEL, RECORD, and the list of symbolic links."""

import csv
import posixpath
from collections.abc import Collection, Mapping
from email.message import Message
from types import MappingProxyType
from typing import NamedTuple, Self

from packaging.tags import Tag
from packaging.utils import canonicalize_name

from gpuforge.wheel import filename, metadata, record
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.record import Record

_LARGEST = {"WHEEL": 1 << 20, "METADATA": 16 << 20, "RECORD": 512 << 20}  # bytes; a larger file is not read
_PARSED = 32  # characters of the budget for each of a header, which take as long to parse
# https://github.com/karellen/wheel-axle: links that are made when Python first starts after the installation
_LINKS = "symlinks.txt"


class Identity(NamedTuple):
    """A name and a version that a part of a wheel states, as written; "" if it states none."""

    place: str  # "METADATA", "the .dist-info folder"
    name: str
    version: str


class MetadataProblem(NamedTuple):
    """A problem of the metadata for installers: its kind, a constant word, its subject, and other facts."""

    kind: str
    about: tuple[str, ...] = ()
    facts: Mapping[str, str | int] = MappingProxyType({})


class DistInfo(NamedTuple):
    """The content of a `.dist-info` folder; empty for binaries that are not in a wheel."""

    tags: tuple[Tag | str, ...] = ()  # a line that is not a tag is text
    requires: tuple[str, ...] = ()
    record: Record | None = None
    problems: tuple[MetadataProblem, ...] = ()
    project: str = ""
    version: str = ""
    folder: str = ""  # its own name, without ".dist-info"
    purelib_lines: tuple[str, ...] = ()  # the values of its Root-Is-Purelib lines
    links: Mapping[str, str] = MappingProxyType({})  # symbolic links and their targets, as members
    requires_python: str = ""
    extras: frozenset[str] = frozenset()  # Provides-Extra, normalized
    license_files: tuple[str, ...] = ()  # the files that PyPI requires, for metadata 2.4 and later

    @property
    def identities(self) -> tuple[Identity, ...]:
        """Return the names and versions in METADATA and in the folder's name."""
        if not self.folder:
            return ()
        return (
            Identity("METADATA", self.project, self.version),
            Identity("the .dist-info folder", *filename.of_info(self.folder)),
        )

    @classmethod
    def of(cls, archive: Archive, folders: Collection[str]) -> Self:
        """Read the first of these `.dist-info` folders. Raises MalformedError for a broken archive."""
        several = MetadataProblem("several .dist-info folders", facts={"count": len(folders)})
        problems = [several] if len(folders) > 1 else []
        folder = min(folders)
        paths = {f"{folder}/{name}": name for name in _LARGEST}
        found = {
            paths[m.name]: m for m in archive.members if m.name in paths and m.size <= _LARGEST[paths[m.name]]
        }
        problems += [MetadataProblem("no file", (name,)) for name in _LARGEST if name not in found]
        wheel, text = (archive.data(found[name]) if name in found else b"" for name in ("WHEEL", "METADATA"))
        archive.budget.spend("names", _PARSED * len(metadata.head(text)))
        declared = metadata.parse(text)
        requires = tuple(metadata.fields(declared, "Requires-Dist"))
        archive.budget.spend("work", sum(map(_comparisons, requires)))
        listed = None
        if "RECORD" in found:
            try:
                listed = record.compare(archive.chunks(found["RECORD"]), archive.members, archive.budget)
            except csv.Error:
                problems.append(MetadataProblem("RECORD"))
        return cls(
            tags=metadata.tags_of(wheel),
            requires=requires,
            record=listed,
            problems=tuple(problems),
            project=canonicalize_name(metadata.field(declared, "Name")),
            version=metadata.field(declared, "Version"),
            folder=folder.removesuffix(".dist-info"),
            purelib_lines=metadata.purelib_lines(wheel),
            links=_links(archive, folder),
            extras=frozenset(map(canonicalize_name, metadata.fields(declared, "Provides-Extra"))),
            requires_python=metadata.field(declared, "Requires-Python"),
            license_files=_license_files(declared),
        )


def _comparisons(line: str) -> int:
    """Estimate the comparisons that a requirement costs: its marker for each extra, plus pairs of clauses."""
    return len(line) * (1 + line.count("extra")) + 50 * line.count(",") ** 2


def _license_files(declared: Message) -> tuple[str, ...]:
    """Return the License-File fields. Like twine, ignore them before metadata 2.4, where only setuptools wrote them."""
    numbers = metadata.field(declared, "Metadata-Version").split(".")
    newer = all(n.isdecimal() and len(n) < 4 for n in numbers) and [int(n) for n in numbers] >= [2, 4]
    return tuple(metadata.fields(declared, "License-File")) if newer else ()


def _links(archive: Archive, folder: str) -> Mapping[str, str]:
    """Return the links that wheel-axle makes; a line has the link, its target, and whether that is a folder."""
    listed = [m for m in archive.members if m.name == f"{folder}/{_LINKS}" and m.size <= _LARGEST["WHEEL"]]
    lines = archive.data(listed[0]).decode("utf-8", "replace").splitlines() if listed else []
    archive.budget.spend("entries", len(lines))
    rows = (line.rsplit(",", 2) for line in lines)
    return {
        row[0]: posixpath.normpath(posixpath.join(posixpath.dirname(row[0]), row[1]))
        for row in rows
        if len(row) == 3
    }
