"""Reads the members of a wheel as streams: the directory by `zipfile`, the bytes inflated by `isal`, nothing on disk.

Threads may read from one archive at the same time: each member is read at its own offset. The files of a folder are
read in the same way.
"""

import os
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, NamedTuple, Self
from zipfile import ZIP_STORED

from isal import igzip_lib, isal_zlib

from gpuforge.binary.window import Budget
from gpuforge.diagnostics import Place
from gpuforge.errors import CorruptError, MalformedError, TooLargeError

BROKEN = (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OverflowError, struct.error)
"""The errors of `zipfile` for an archive that is damaged, or made to confuse its readers."""

_InflateError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls it an instance
_PACKED_CHUNK = 1 << 20
_EXTRA = 64  # bytes that a local header has beyond its name, in most wheels
_CHUNK = 1 << 21  # bytes of a member that are in memory at once, at most
_LARGEST_DIRECTORY = 12 << 20  # bytes, which is 90,000 files or more; zipfile keeps a kilobyte of each


class Member(NamedTuple):
    """A file in an archive, as the central directory describes it."""

    name: str
    size: int  # bytes, unpacked
    packed: int
    method: int
    crc: int
    header: int  # offset of its local header


class Directory(NamedTuple):
    """The directory at the end of a zip file, as `zipfile` reads it."""

    entries: tuple[zipfile.ZipInfo, ...] = ()  # also of folders
    start: int = 0  # its offset
    size: int = 0  # bytes of the whole file

    @property
    def members(self) -> tuple[Member, ...]:
        """Return the files in the archive."""
        return tuple(_member(info, self.size) for info in self.entries if not info.filename.endswith("/"))


class Archive:
    """A zip file, open for reading its members."""

    directory = Directory()  # empty if it is not a zip file
    _file: IO[bytes]

    def __init__(self, path: Path | str, budget: Budget | None = None) -> None:
        """Open it; raises MalformedError for a damaged file or another kind of file, OSError if it cannot be read.

        Reading it spends `budget`, or a new budget of its own.
        """
        self.path = path
        self._file = open(path, "rb")  # noqa: PTH123, SIM115  a string is a path, too; closed by __exit__
        try:
            size = os.fstat(self._file.fileno()).st_size
            self.budget = budget or Budget(size)
            self.directory = directory(self._file, size)
            self.members = self.directory.members
            self.budget.spend("entries", len(self.members))
        except BROKEN as error:
            self._file.close()
            raise MalformedError.of(_reason(path, error)) from error
        except (OSError, TooLargeError):
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield a member's bytes in order; raises CorruptError when it is damaged or ends early."""
        crc = size = 0
        if member.method == zipfile.ZIP_DEFLATED:
            inflater = _inflater()
            for chunk in self._inflated(member, inflater):
                size += len(chunk)
                if size > member.size:
                    raise _mismatch(member)
                self.budget.spend("bytes", len(chunk))
                yield chunk
            crc = inflater.crc
        elif member.method == zipfile.ZIP_STORED:
            for chunk in self._packed(member, _CHUNK):
                crc = isal_zlib.crc32(chunk, crc)
                size += len(chunk)
                self.budget.spend("bytes", len(chunk))
                yield chunk
        else:
            raise _unused_method(member)
        if size != member.size or crc != member.crc:
            raise _mismatch(member)

    def head(self, member: Member, count: int) -> bytes:
        """Return the first `count` bytes of a member, without inflating more than they need.

        Raises the errors of `chunks`.
        """
        _, packed = self._begin(member, min(member.packed, 4 * count + 512))
        if member.method == zipfile.ZIP_STORED:
            return packed[:count]
        if member.method != zipfile.ZIP_DEFLATED:
            raise _unused_method(member)
        try:
            return bytes(isal_zlib.decompressobj(wbits=-15).decompress(packed, count))
        except _InflateError as error:
            raise _not_inflated(member, error) from error

    def data(self, member: Member) -> bytes:
        """Return all bytes of a small member; raises the errors of `chunks`."""
        if member.method != zipfile.ZIP_DEFLATED or member.packed > _CHUNK:
            return b"".join(self.chunks(member))
        self.budget.spend("bytes", member.packed + member.size)
        _, packed = self._begin(member, member.packed)
        inflater = _inflater()
        try:
            data = inflater.decompress(packed, member.size + 1)
        except _InflateError as error:
            raise _not_inflated(member, error) from error
        if len(data) != member.size or inflater.crc != member.crc:
            raise _mismatch(member)
        return data

    def _inflated(self, member: Member, inflater: igzip_lib.IgzipDecompressor) -> Iterator[bytes]:
        try:
            for packed in self._packed(member, _PACKED_CHUNK):
                pending = packed
                while not inflater.eof:
                    if chunk := inflater.decompress(pending, _CHUNK):
                        yield chunk
                    if inflater.needs_input:
                        break
                    pending = b""
        except _InflateError as error:
            raise _not_inflated(member, error) from error

    def _packed(self, member: Member, count: int) -> Iterator[bytes]:
        """Yield a member's packed bytes, `count` at a time."""
        start, first = self._begin(member, min(count, member.packed))
        yield first
        end = start + member.packed
        for position in range(start + count, end, count):
            yield self._read(member, position, min(count, end - position))

    def starts(self, spans: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Yield bytes of the zip file itself, for each offset and count; fewer at its end, none outside of it."""
        size, pread = self.directory.size, self._pread
        return (pread(count, offset) if 0 <= offset < size else b"" for offset, count in spans)

    def read_at(self, offset: int, count: int) -> bytes:
        """Return bytes of the zip file itself; fewer at its end, none outside of it."""
        return self._pread(count, offset) if 0 <= offset < self.directory.size and count > 0 else b""

    def _begin(self, member: Member, count: int) -> tuple[int, bytes]:
        """Return the offset of a member's data, and its first `count` bytes: for most members in one read."""
        data = self._pread(30 + len(member.name) + _EXTRA + count, member.header)
        if data[:4] != b"PK\x03\x04" or len(data) < 30:
            raise CorruptError.of(
                "the archive has no file where its directory says", place=Place(member.name)
            )
        name, extra = struct.unpack_from("<HH", data, 26)
        skip = 30 + int(name) + int(extra)
        start = member.header + skip
        first = data[skip : skip + count]
        return start, first if len(first) == count else self._read(member, start, count)

    def _read(self, member: Member, offset: int, count: int) -> bytes:
        data = self._pread(count, offset)
        if len(data) < count:
            raise CorruptError.of(
                "the archive ends in the middle of it: it was cut off", place=Place(member.name)
            )
        return data

    def _pread(self, count: int, offset: int) -> bytes:
        return os.pread(self._file.fileno(), count, offset)


def directory(file: IO[bytes], size: int) -> Directory:
    """Read the directory of a zip file of `size` bytes; raises one of `BROKEN` for a damaged one, TooLargeError."""
    with zipfile.ZipFile(_Bounded(file)) as archive:
        return Directory(tuple(archive.infolist()), archive.start_dir, size)


class _Bounded:
    """A file for `zipfile` that refuses to read a directory which is too large."""

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self._file = file.seek, file.tell, file

    def read(self, count: int = -1) -> bytes:
        if count > _LARGEST_DIRECTORY:
            raise TooLargeError.of(f"the central directory has more than {_LARGEST_DIRECTORY:,} bytes")
        return self._file.read(count)


def shared_libraries(archive: Archive) -> dict[str, Member]:
    """Return the shared libraries of a wheel by their file names; stubs, which are for linkers only, are left out."""
    found = (m for m in archive.members if ".so" in m.name and "/stubs/" not in m.name)
    return {PurePosixPath(member.name).name: member for member in found}


def info_folders(archive: Archive) -> frozenset[str]:
    """Return the `.dist-info` folders at the top of a wheel; a valid wheel has one."""
    tops = {member.name.partition("/")[0] for member in archive.members}
    return frozenset(name for name in tops if name.endswith(".dist-info"))


def _member(info: zipfile.ZipInfo, size: int) -> Member:
    # an offset outside of the archive is reported when the member is read: system calls reject some of them
    header = info.header_offset if 0 <= info.header_offset <= size else size
    return Member(info.filename, info.file_size, info.compress_size, info.compress_type, info.CRC, header)


def _inflater() -> igzip_lib.IgzipDecompressor:
    """Return an inflater of a raw stream that also computes its CRC-32, as for a gzip file."""
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR)


def _unused_method(member: Member) -> MalformedError:
    problem = f"packed with method {member.method}, which wheels do not use"
    return MalformedError.of(problem, place=Place(member.name))


def _mismatch(member: Member) -> CorruptError:
    return CorruptError.of("its bytes do not match the checksum in the archive", place=Place(member.name))


def _not_inflated(member: Member, error: Exception) -> CorruptError:
    return CorruptError.of(f"cannot be inflated ({error})", place=Place(member.name))


def _reason(path: Path | str, error: Exception) -> str:
    with open(path, "rb") as stream:  # noqa: PTH123  a string is a path, too
        head = stream.read(4)
    if head == b"PK\x03\x04":
        return (
            f"it begins like a zip file but its directory cannot be read ({error}): it was cut off or damaged"
        )
    return "it is not a wheel: not even a zip file"


class Folder(Archive):
    """Files by their names as members; nothing is inflated, and no checksum is compared."""

    def __init__(self, path: Path, files: Mapping[str, Path]) -> None:
        """Use the regular files of `files`; the others are left out."""
        self.path = path
        self._files = {name: file for name, file in files.items() if file.is_file()}
        sizes = {name: file.stat().st_size for name, file in self._files.items()}
        self.members = tuple(Member(name, size, size, ZIP_STORED, 0, 0) for name, size in sizes.items())
        self.budget = Budget(sum(sizes.values()))
        self.budget.spend("entries", len(sizes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass  # each file is closed after it was read

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield a file's bytes in order; raises MalformedError if it cannot be read."""
        try:
            with self._files[member.name].open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    self.budget.spend("bytes", len(chunk))
                    yield chunk
        except OSError as error:
            raise _unreadable(member, error) from error

    def head(self, member: Member, count: int) -> bytes:
        """Return the first `count` bytes of a file. Raises the errors of `chunks`."""
        try:
            with self._files[member.name].open("rb") as stream:
                return stream.read(count)
        except OSError as error:
            raise _unreadable(member, error) from error


def files_below(folder: Path) -> dict[str, Path]:
    """Return every file below a folder by its name there, "a/b.so", in order; links to folders are not followed."""
    found = [Path(base) / name for base, _, names in os.walk(folder) for name in names]
    return {path.relative_to(folder).as_posix(): path for path in sorted(found)}


def _unreadable(member: Member, error: OSError) -> MalformedError:
    return MalformedError.of(error.strerror or str(error), place=Place(member.name))
