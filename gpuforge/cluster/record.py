"""The record of an entry of a shared store; a record that others wrote is checked before it is used."""

import json
import math
import re
from datetime import datetime
from typing import Any, NamedTuple

from gpuforge import tree
from gpuforge.execute import entry
from gpuforge.execute.entry import MOST_BYTES, MOST_FILES, StoredFile, StoreEntry, sealed, unsealed

FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[0-9a-f]{32}")
_LATEST = 1 << 33  # seconds since the epoch: the year 2242
_LONGEST_LINK = 4096  # bytes (PATH_MAX of linux/limits.h)
_EXPANSION = 1 << 16  # bytes that incompressible data may grow by; zstd adds less than 0.4 % to it


class Content(NamedTuple):
    """The object with the bytes of an entry's files: the last part of its name, its bytes, its sha256."""

    token: str
    size: int
    sha256: str


class SharedEntry(NamedTuple):
    """An entry: the record of a local store, and what else is needed to make the same folder on another machine.

    `folders` are the empty ones. `times` are those of the files, without links, in the entry's order, in whole seconds
    since the epoch: compilers compare them.
    """

    entry: StoreEntry
    folders: tuple[str, ...]
    times: tuple[int, ...]
    content: Content

    @property
    def plain(self) -> list[StoredFile]:
        """The files without links, whose bytes are in the content."""
        return [file for file in self.entry.files if not file.link]


class Alias(NamedTuple):
    """Another name of an entry."""

    key: str


def is_key(text: object) -> bool:
    """Return whether something is an action's key."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def to_bytes(key: str, record: SharedEntry | Alias) -> bytes:
    """Return the record of a key as JSON, with its sum."""
    if isinstance(record, Alias):
        return sealed(key, json.dumps({"format": FORMAT, "alias": record.key}).encode())
    data = {
        "format": FORMAT,
        "entry": json.loads(entry.to_json(record.entry)),
        "folders": record.folders,
        "times": record.times,
        "content": record.content,
    }
    return sealed(key, json.dumps(data, separators=(",", ":")).encode())


def from_bytes(key: str, data: bytes) -> SharedEntry | Alias:
    """Return the record that `to_bytes` wrote; raises ValueError for any other bytes, and for harmful content."""
    try:
        found = json.loads(unsealed(key, data))
        if found["format"] != FORMAT:
            msg = f"format {found['format']} instead of {FORMAT}"
            raise ValueError(msg)
        if "alias" in found:
            _hold(is_key(found["alias"]), "it is another name of something that is not an entry")
            return Alias(found["alias"])
        shared = SharedEntry(
            entry.from_json(json.dumps(found["entry"])),
            tuple(found["folders"]),
            tuple(found["times"]),
            Content(*found["content"]),
        )
        _check(shared)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        msg = f"a part is missing or of the wrong kind ({error})"
        raise ValueError(msg) from error
    return shared


def _check(record: SharedEntry) -> None:
    entry = record.entry
    _hold(math.isfinite(entry.seconds) and entry.seconds >= 0, "its time is not valid")
    _hold(datetime.fromisoformat(entry.finished).tzinfo is not None, "its date has no time zone")
    _hold(all(_is_name(name) for name in entry.outputs), "an output's name is not a file name")
    _hold(len({*entry.outputs}) == len(entry.outputs), "two outputs have one name")
    _hold(len(entry.files) + len(record.folders) <= MOST_FILES, f"it has more than {MOST_FILES:,} files")
    for file in entry.files:
        _check_file(file)
    _hold(sum(file.size for file in entry.files) <= MOST_BYTES, f"it is larger than {MOST_BYTES // 10**9} GB")
    _check_paths(record)
    _hold(len(record.times) == len(record.plain), "its times are not those of its files")
    _hold(
        all(type(each) is int and 0 <= each < _LATEST for each in record.times), "a file's time is not valid"
    )
    content, size = record.content, sum(file.size for file in record.plain)
    _hold(type(content.size) is int and content.size >= 0, "its content's size is not valid")
    _hold(content.size <= size + size // 128 + _EXPANSION, "its content is larger than what it holds")
    _hold(
        _TOKEN.fullmatch(content.token) and _SHA256.fullmatch(content.sha256),
        "its content's name is not valid",
    )


def _check_file(file: StoredFile) -> None:
    _hold(file.size >= 0, "a file's size is not valid")
    if file.link:
        _hold("/" in file.path and "\0" not in file.link, "an output is a link")
        _hold(len(file.link.encode(errors="surrogateescape")) <= _LONGEST_LINK, "a link is too long")
    else:
        _hold(_SHA256.fullmatch(file.sha256), "a file's sha256 is not valid")


def _check_paths(record: SharedEntry) -> None:
    """Raise ValueError for paths that lead out of the folder, and for paths below a file or a link."""
    files = [file.path for file in record.entry.files]
    paths = {*files, *record.folders}
    _hold(len(paths) == len(files) + len(record.folders), "two files have one path")
    for path in paths:
        parts = path.split("/")
        _hold(all(_is_name(part) for part in parts), f"{path[:100]!r} is not a path inside it")
        _hold(len(path.encode(errors="surrogateescape")) <= tree.LONGEST, "a path is too long")
        _hold(parts[0] in record.entry.outputs, f"{path[:100]!r} is in none of its outputs")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        _hold(paths.isdisjoint(above), f"{path[:100]!r} is below a file")


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text not in {"", ".", ".."} and not {"/", "\0"} & {*text}


def _hold(fact: object, otherwise: str) -> None:
    if not fact:
        raise ValueError(otherwise)


ENTRIES, LEASES, USES, BUILDS, CLOCK = "entries", "leases", "used", "builds", "clock"


def record_name(key: str) -> str:
    """Return the name of an entry's record; the entry exists if the record does."""
    return f"{ENTRIES}/{key[:2]}/{key}/record.json"


def content_name(key: str, token: str) -> str:
    """Return the name of the bytes of an entry's files."""
    return f"{ENTRIES}/{key[:2]}/{key}/{token}.zst"


def used_name(key: str) -> str:
    """Return the name of an object whose time is when an entry was last used."""
    return f"{USES}/{key[:2]}/{key}"


def lease_folder(key: str) -> str:
    """Return the folder of the leases of a key."""
    return f"{LEASES}/{key}"
