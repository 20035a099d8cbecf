"""The bytes of an entry as one object: those of its files, one after another, compressed.

Names and sizes are only in the record, where they are checked; an archive would have names of its own, to be checked
again.
"""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import zstandard

from gpuforge import digest, tree
from gpuforge.cluster.record import Content, SharedEntry
from gpuforge.execute.entry import StoredFile, StoreEntry

_LEVEL = 3
_CHUNK = 1 << 20  # bytes


def described(folder: Path, entry: StoreEntry, content: Content) -> SharedEntry:
    """Return the record of an entry whose outputs lie in `folder`."""
    folders = []
    for output in entry.outputs:
        if (folder / output).is_dir():
            found = [output, *(f"{output}/{e.path}" for e in tree.walk(folder / output) if e.is_folder)]
            folders += [path for path in found if not any((folder / path).iterdir())]
    times = tuple(max(0, int((folder / f.path).lstat().st_mtime)) for f in entry.files if not f.link)
    return SharedEntry(entry, tuple(folders), times, content)


def pack(folder: Path, entry: StoreEntry, target: Path) -> Content:
    """Write the bytes of an entry's files below `folder`, in their order, to `target`."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=-1)
    with target.open("xb") as raw, compressor.stream_writer(raw, closefd=False) as stream:
        for file in (each for each in entry.files if not each.link):
            with tree.reading(folder, file.path) as source:
                while chunk := os.read(source, _CHUNK):
                    stream.write(chunk)
    return Content(uuid4().hex, target.stat().st_size, digest.of_file(target))


def unpack(content: Path, folder: Path, record: SharedEntry) -> None:
    """Make the files below `folder`, which has only folders, from the bytes that `pack` wrote.

    Raises ValueError if the bytes are not those of the record; never writes more bytes than the record has.
    """
    try:
        with content.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            for file, time in zip(record.plain, record.times, strict=True):
                place = folder / file.path
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("xb") as target:
                    _copy(stream, target, file)
                place.chmod(0o755 if file.executable else 0o644)
                os.utime(place, (time, time))
            if stream.read(1):
                msg = "its content has more bytes than its record says"
                raise ValueError(msg)
    except zstandard.ZstdError as error:
        msg = f"its content cannot be unpacked: {error}"
        raise ValueError(msg) from error


def _copy(stream: BinaryIO, target: BinaryIO, file: StoredFile) -> None:
    left, found = file.size, hashlib.sha256()
    while left and (chunk := stream.read(min(left, _CHUNK))):
        target.write(chunk)
        found.update(chunk)
        left -= len(chunk)
    if left:
        msg = f"{file.path}: {left} bytes missing"
        raise ValueError(msg)
    if found.hexdigest() != file.sha256:
        msg = f"{file.path} is not what was stored"
        raise ValueError(msg)


def link(folder: Path, entry: StoreEntry, *, links_out: bool) -> None:
    """Make the links of an entry, after its files, so that nothing is written through them.

    Raises ValueError for a link that leads out of its output, unless `links_out`.
    """
    links = [file for file in entry.files if file.link]
    for file in links:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(file.link)
    for file in links:
        output, path = file.path.split("/", 1)
        if not links_out and tree.leads_out(folder / output, tree.look(folder / output, path)):
            msg = f"{file.path} is a link that leads out, to {file.link}"
            raise ValueError(msg)
