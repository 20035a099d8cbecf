"""Makes zip files record by record, so that each field can contradict the others."""

import hashlib
import struct
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

DESCRIPTOR, ENCRYPTED, UTF8 = 8, 1, 0x800
STORED, DEFLATED, BZIP2 = 0, 8, 12
WHEEL = "demo-1.0-py3-none-any.whl"
INFO = "demo-1.0.dist-info"
METADATA = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\n"
TAGS = "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class Entry(NamedTuple):
    """A member; `local` and `central` replace fields of the record of that name: "crc", "packed", "size", "name"…"""

    name: bytes
    data: bytes = b""
    method: int = STORED
    flags: int = 0
    local: Mapping[str, int | bytes] = {}
    central: Mapping[str, int | bytes] = {}
    mode: int = 0o100644
    before: bytes = b""  # bytes before its local header
    descriptor: bool = False
    hidden: bool = False  # it is not in the directory
    listed_at: int | None = None  # it is in the directory alone, which looks for it here

    def packed(self) -> bytes:
        """Return the data as the archive has it."""
        if self.method != DEFLATED:
            return self.data
        return _deflated(self.data)


@lru_cache(maxsize=1)  # each entry's is needed several times
def _deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflate.compress(data) + deflate.flush()


def _record(magic: bytes, form: str, values: tuple[object, ...], *tail: bytes) -> bytes:
    return magic + struct.pack(form, *values) + b"".join(tail)


def _fields(entry: Entry, changes: Mapping[str, int | bytes]) -> dict[str, int | bytes]:
    flags = entry.flags | (DESCRIPTOR if entry.descriptor else 0)
    return {
        "flags": flags, "method": entry.method, "crc": zlib.crc32(entry.data), "packed": len(entry.packed()),
        "size": len(entry.data), "name": entry.name, "extra": b"", "comment": b"", **changes,
    }  # fmt: skip


def _local(entry: Entry) -> bytes:
    streamed: dict[str, int | bytes] = {"crc": 0, "packed": 0, "size": 0} if entry.descriptor else {}
    f = _fields(entry, {**streamed, **entry.local})
    values = (
        20,
        f["flags"],
        f["method"],
        0,
        33,
        f["crc"],
        f["packed"],
        f["size"],
        len(f["name"]),
        len(f["extra"]),
    )  # type: ignore[arg-type]
    return _record(b"PK\3\4", "<HHHHHIIIHH", values, f["name"], f["extra"])  # type: ignore[arg-type]


def _central(entry: Entry, offset: int) -> bytes:
    f = _fields(entry, {"offset": offset, **entry.central})
    sizes = [len(f[name]) for name in ("name", "extra", "comment")]  # type: ignore[arg-type]
    values = (
        0x314, 20, f["flags"], f["method"], 0, 33, f["crc"], f["packed"], f["size"], *sizes, 0, 0,
        entry.mode << 16, f["offset"],
    )  # fmt: skip
    return _record(b"PK\1\2", "<HHHHHHIIIHHHHHII", values, f["name"], f["extra"], f["comment"])  # type: ignore[arg-type]


def end(count: int, size: int, offset: int, comment: bytes = b"") -> bytes:
    """Return an end record."""
    return _record(b"PK\5\6", "<HHHHIIH", (0, 0, count, count, size, offset, len(comment)), comment)


def end64(count: int, size: int, offset: int, place: int, *, length: int = 44, led: int = 0) -> bytes:
    """Return a ZIP64 end record that is at `place`, and its locator, which is `led` bytes wrong."""
    record = _record(b"PK\6\6", "<QHHIIQQQQ", (length, 45, 45, 0, 0, count, count, size, offset))
    return record + _record(b"PK\6\7", "<IQI", (0, place + led, 1))


def zip_file(
    entries: Sequence[Entry],
    *,
    before: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    comment: bytes = b"",
    counted: int = 0,
    zip64: Mapping[str, int] | None = None,
    shifted: bool = True,
) -> bytes:
    """Return a zip file; `before`, `between` (files and directory) and `after` are bytes that no record has.

    `shifted` counts offsets with `before`; otherwise it was put before a finished archive. `counted` is added to the
    number of entries, `zip64` are the options of `end64`.
    """
    data = before
    listed = b""
    for entry in entries:
        data += entry.before
        offset = len(data) - (0 if shifted else len(before))
        listed += (
            b"" if entry.hidden else _central(entry, offset if entry.listed_at is None else entry.listed_at)
        )
        if entry.listed_at is not None:
            continue
        data += _local(entry) + entry.packed()
        if entry.descriptor:
            data += _record(
                b"PK\7\10", "<III", (zlib.crc32(entry.data), len(entry.packed()), len(entry.data))
            )
    data += between
    start = len(data) - (0 if shifted else len(before))
    data += listed
    count = sum(not entry.hidden for entry in entries) + counted
    if zip64 is not None:
        data += end64(count, len(listed), start, len(data), **zip64)
    return data + end(count, len(listed), start, comment) + after


def _recorded(entry: Entry) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(entry.data).digest()).rstrip(b"=").decode()
    return f"{entry.name.decode()},sha256={digest},{len(entry.data)}\n"


CODE = Entry(b"demo/__init__.py", b"answer = 42\n")


def metadata(**texts: str) -> list[Entry]:
    """Return the members of the `.dist-info` folder of a small wheel; `texts` replace or add files of it."""
    files = {"METADATA": METADATA, "WHEEL": TAGS, **texts}
    listed = [CODE, *(Entry(f"{INFO}/{name}".encode(), text.encode()) for name, text in files.items())]
    files["RECORD"] = texts.get("RECORD", "".join(map(_recorded, listed)) + f"{INFO}/RECORD,,\n")
    return [Entry(f"{INFO}/{name}".encode(), text.encode()) for name, text in files.items()]


def wheel_file(folder: Path, data: bytes, name: str = WHEEL) -> Path:
    """Write a wheel."""
    path = folder / name
    path.write_bytes(data)
    return path
