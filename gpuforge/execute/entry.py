"""The record of an entry of the store, and how files are checked against it: by names and sizes, bytes, or times."""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuforge import digest, tree
from gpuforge.errors import ActionError

FORMAT = 1
_SEALED = re.compile(rb'\{"sha256":"([0-9a-f]{64})","record":(.*)\}', re.DOTALL)
_ALIAS = re.compile(rb'"([0-9a-f]{64})"')
_EXECUTABLE = "executable"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file or link of an output; `path` starts with the output's name."""

    path: str
    size: int  # bytes; of a link, the length of its target
    sha256: str  # empty for a link
    link: str = ""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A stored entry: the action, the time (UTC, ISO 8601), the seconds that it took, and its files."""

    action: str
    seconds: float
    finished: str
    outputs: tuple[str, ...]
    files: tuple[StoredFile, ...] = ()


def to_json(entry: StoreEntry) -> str:
    """Return the entry as JSON text."""
    return json.dumps(
        {
            "format": FORMAT,
            "action": entry.action,
            "seconds": round(entry.seconds, 3),
            "finished": entry.finished,
            "outputs": list(entry.outputs),
            "files": {
                f.path: [f.size, f.sha256, *([_EXECUTABLE] if f.executable else [])]
                for f in entry.files
                if not f.link
            },
            "links": {f.path: f.link for f in entry.files if f.link},
        },
        indent=1,
    )


def from_json(text: str) -> StoreEntry:
    """Return the entry that `to_json` wrote; raises ValueError for any other text."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            msg = f"format {data['format']} instead of {FORMAT}"
            raise ValueError(msg)
        files = [
            StoredFile(path, int(size), str(sha), executable=_EXECUTABLE in kind)
            for path, (size, sha, *kind) in data["files"].items()
        ]
        links = [StoredFile(path, len(target), "", target) for path, target in data["links"].items()]
        names = [*data["outputs"], *data["files"], *data["links"], *data["links"].values()]
        if any(b"\0" in os.fsencode(name) for name in names):
            msg = "a name has a NUL character"
            raise ValueError(msg)
        return StoreEntry(
            action=str(data["action"]),
            seconds=float(data["seconds"]),
            finished=str(data["finished"]),
            outputs=tuple(data["outputs"]),
            files=tuple(sorted(files + links, key=lambda file: file.path)),
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        msg = f"a part is missing or of the wrong kind ({error})"
        raise ValueError(msg) from error


def sealed(key: str, record: bytes) -> bytes:
    """Return a JSON record with a checksum of it and of its key, as JSON."""
    return b'{"sha256":"%s","record":%s}' % (_sum(key, record), record)


def unsealed(key: str, data: bytes) -> bytes:
    """Return the record without its checksum; raises ValueError for changed bytes and for another key's record."""
    found = _SEALED.fullmatch(data)
    if found is None:
        msg = "its record has no checksum"
        raise ValueError(msg)
    if found[1] != _sum(key, found[2]):
        msg = "its record has changed, or is that of another key"
        raise ValueError(msg)
    return found[2]


def _sum(key: str, record: bytes) -> bytes:
    return digest.of_bytes(key.encode() + b"\n" + record).encode()


def alias_to_bytes(key: str, other: str) -> bytes:
    """Return the record of a key that is another name of the entry `other`."""
    return sealed(key, json.dumps(other).encode())


def alias_from_bytes(key: str, data: bytes) -> str:
    """Return the entry that `key` is another name of; raises ValueError for any other bytes."""
    found = _ALIAS.fullmatch(unsealed(key, data))
    if found is None:
        msg = "it is another name of something that is not an entry"
        raise ValueError(msg)
    return found[1].decode()


MOST_BYTES = 64 * 10**9  # of an action's outputs; a CUDA toolkit has 8 GB
MOST_FILES = 1_000_000


def survey(
    folder: Path, outputs: Iterable[str], *, links_out: bool = True, stop: Callable[[], bool] = bool
) -> tuple[StoredFile, ...]:
    """Return every file and link of the outputs in `folder`, with sizes and digests, in name order.

    Raises ActionError for an output that is a link itself, for pipes, sockets and devices, for outputs of more than
    `MOST_BYTES` and, unless `links_out`, for links that lead out of the output. `stop` is as in `digest.of_member`.
    """
    found: list[StoredFile] = []
    size = 0
    for name, entry in _members(folder, outputs):
        _refuse(folder, name, entry, links_out=links_out)
        size += entry.stat.st_size
        if size > MOST_BYTES or len(found) == MOST_FILES:
            most = f"{MOST_BYTES // 10**9} GB or {MOST_FILES:,} files"
            raise ActionError.of(f"the outputs are more than {most}", hint=f"at {name} the limit was reached")
        found.append(_describe(folder, name, entry, stop))
    return tuple(sorted(found, key=lambda file: file.path))


def _members(folder: Path, outputs: Iterable[str]) -> Iterator[tuple[str, tree.TreeEntry]]:
    """Yield all files, links and other things of the outputs, each with its path below `folder`."""
    for output in outputs:
        top = tree.look(folder, output)
        if top.link:
            raise ActionError.of(
                f"the output {output} is a link, to {top.link}", hint="write a file or a folder there"
            )
        if not top.is_folder:
            yield output, top
            continue
        for entry in tree.walk(folder / output):
            if not entry.is_folder:
                yield f"{output}/{entry.path}", entry


def _refuse(folder: Path, name: str, entry: tree.TreeEntry, *, links_out: bool) -> None:
    if entry.link:
        if not links_out and tree.leads_out(folder / PurePosixPath(name).parts[0], entry):
            raise ActionError.of(
                f"{name} of the outputs is a link that leads out of them, to {entry.link}",
                hint="write a copy there in place of the link",
            )
    elif entry.kind != stat.S_IFREG:
        what = tree.KINDS.get(entry.kind, "no file")
        raise ActionError.of(f"{name} of the outputs is {what}", hint="outputs are files, folders and links")


def _describe(folder: Path, name: str, entry: tree.TreeEntry, stop: Callable[[], bool]) -> StoredFile:
    if entry.link:
        return StoredFile(name, len(entry.link), "", entry.link)
    executable = bool(entry.stat.st_mode & stat.S_IXUSR)
    return StoredFile(
        name, entry.stat.st_size, digest.of_member(folder, name, stop=stop), executable=executable
    )


def damage(folder: Path, entry: StoreEntry) -> str:
    """Return how the names or sizes of the files in `folder` differ from their record, or an empty string."""
    root = os.fspath(folder)
    for name in entry.outputs:
        if not os.path.lexists(f"{root}/{name}"):
            return f"{name} is gone"
    for file in entry.files:
        wrong = _wrong(f"{root}/{file.path}", file)
        if wrong:
            return f"{file.path}{wrong}"
    return ""


def _wrong(path: str, file: StoredFile) -> str:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return " is gone"
    except OSError as error:
        return f" cannot be read: {error.strerror}"
    if stat.S_ISLNK(found.st_mode) != bool(file.link) or not (file.link or stat.S_ISREG(found.st_mode)):
        return " is not what was stored"
    change = found.st_size - file.size
    if change:
        return f": {abs(change)} {_bytes(change)} {'missing' if change < 0 else 'too many'}"
    return ""


def changes(folder: Path, entry: StoreEntry, stop: Callable[[], bool] = bool) -> str:
    """Return how the bytes of the files in `folder` differ from their record, or an empty string.

    Additional files are reported, too: one more header or `.pth` file changes a build.
    """
    stored = {file.path: file for file in entry.files}
    there = {file.path: file for file in survey(folder, entry.outputs, stop=stop)}
    for name in sorted(stored.keys() | there.keys()):
        if name not in stored:
            return f"{name} was put there later"
        if stored[name] != there.get(name):
            return f"{name} is not what was stored"
    return ""


def stamp(key: str, folder: Path) -> str:
    """Return a digest of a key and of when each file and folder below `folder` last changed; no byte of them is read.

    The kernel sets these times (ctime), so a write shows even if the modification time was reset.
    """
    found = [os.lstat(folder), *(each.stat for each in tree.walk(folder))]
    return digest.of_data(
        [key, *([each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns] for each in found)]
    )


def _bytes(count: int) -> str:
    return "byte" if abs(count) == 1 else "bytes"
