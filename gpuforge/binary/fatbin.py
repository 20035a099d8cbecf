"""Finds NVIDIA fatbin containers in a stream of bytes, and lists their images.

The format is not published; the fields were read from the output of CUDA 11.3 to 13.2 and agree with
`cuobjdump --list-elf --list-ptx` there. A container is a header of 16 bytes and entries; an entry is a
header (64 bytes or more) and a payload. All numbers are little endian.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from gpuforge.binary import cubin, ptx
from gpuforge.binary.elf.file import opened
from gpuforge.binary.facts import FatbinContainer, FatbinEntry, Section
from gpuforge.binary.window import Budget, find
from gpuforge.errors import MalformedError
from gpuforge.runtime.arch import Arch

MAGIC = b"\x50\xed\x55\xba"
START = MAGIC + b"\x01\x00\x10\x00"  # version 1, a header of 16 bytes
_NEWER = re.compile(rb"....[\x01-\x0f]\0[\x10-\x80]\0", re.DOTALL)  # another version or size of the header
_KINDS = {1: "ptx", 2: "cubin", 8: "lto-ir"}
_LONGEST = 1 << 16  # stored bytes of a cubin that is unpacked
_LONGEST_UNPACKED = 1 << 20
_LONGEST_IMAGE = 1 << 30  # of an image that this machine has compiled
_SMALL = 64 << 10  # bytes; a cubin without kernels is seldom larger (13 KiB at most in 30 wheels)
_BUDGET = 16 << 20  # bytes that are unpacked of one file's larger cubins, of which only some are read
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_LZ4, _ZSTD, _ARCH_SPECIFIC, _FAMILY = 0x2000, 0x8000, 0x100000, 0x200000


def entry(header: bytes) -> tuple[FatbinEntry, int]:
    """Read an entry's header (64 bytes) and return it with the bytes from its start to the next entry.

    Raises MalformedError.
    """
    if len(header) < _ENTRY.size:
        raise MalformedError.of(f"a fatbin entry of {len(header)} bytes")
    (kind, _, header_size, payload, packed, _, minor, major, arch, _, _, flags, _, unpacked) = (
        _ENTRY.unpack_from(header)
    )
    if not 0 < kind <= 64 or not _ENTRY.size <= header_size <= 1 << 16:
        raise MalformedError.of(f"a fatbin entry of kind {kind} with a header of {header_size} bytes")
    name = _KINDS.get(kind, f"kind-{kind}")
    suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY else ""
    compression: Literal["none", "lz4", "zstd"] = (
        "lz4" if flags & _LZ4 else "zstd" if flags & _ZSTD else "none"
    )
    found = FatbinEntry(
        kind=name,
        arch=Arch(arch // 10, arch % 10, suffix),
        isa=f"{major}.{minor}" if name == "ptx" else "",
        size=payload if compression == "none" else unpacked,
        stored=payload if compression == "none" else packed,
        compression=compression,
    )
    return found, header_size + payload


class _Samples:
    """The smallest and the largest cubin of a container, as stored."""

    def __init__(self) -> None:
        self._smallest: tuple[FatbinEntry, bytes] | None = None
        self._largest: tuple[FatbinEntry, bytes] | None = None

    def includes(self, image: FatbinEntry) -> bool:
        """Return whether an entry is the smallest or the largest so far."""
        if image.kind != "cubin":
            return False
        smallest, largest = self._smallest, self._largest
        return (
            smallest is None or largest is None or not smallest[0].stored <= image.stored <= largest[0].stored
        )

    @staticmethod
    def bytes_of(image: FatbinEntry) -> int:
        """Return the number of an entry's bytes to keep: 0 if it is too large to be unpacked, as it has code."""
        return image.stored if image.stored <= _LONGEST else 0

    def add(self, image: FatbinEntry, stored: bytes) -> None:
        """Add an entry that is included, and its bytes."""
        if self._smallest is None or image.stored < self._smallest[0].stored:
            self._smallest = image, stored
        if self._largest is None or image.stored > self._largest[0].stored:
            self._largest = image, stored

    def judge(self, scanner: Scanner) -> tuple[str, bool | None]:
        """Return the toolkit that wrote the cubins, and whether none of them has code.

        "" and None mean unknown: for a large cubin, after the scanner's budget is spent.
        """
        if not (self._smallest and self._largest and self._smallest[1]):
            return "", False
        size = self._smallest[0].size
        if size > _SMALL:
            if scanner.budget < size:
                return "", None
            scanner.budget -= size
        scanner.wheel.spend("bytes", size)
        image = unpacked(*self._smallest)
        empty = cubin.is_empty(image)
        if empty and self._largest is not self._smallest:  # kernels may be for only some architectures
            scanner.wheel.spend("bytes", self._largest[0].size)
            empty = cubin.is_empty(unpacked(*self._largest))
        return cubin.toolkit(image, scanner.wheel), empty


_Request = Generator[tuple[int, int], bytes, None]


class Scanner:
    """Lists the containers of a file of `size` bytes, which is passed in chunks in order; payloads are skipped.

    The bytes outside of the containers are also searched for `mark`; `marked` is true after it was found. `texts` are
    the offsets of PTX there, and of containers in a form that is not known.
    """

    def __init__(self, size: int, mark: bytes = b"", wheel: Budget | None = None) -> None:
        """Use the budget of the wheel that the file is in; a single file has its own."""
        self.wheel = wheel or Budget(size)
        self.containers: list[FatbinContainer] = []
        self.marked = False
        self.texts: set[int] = set()
        self.budget = _BUDGET
        self._size = size
        self._mark = mark
        self._overlap = max(len(mark), len(MAGIC), ptx.HEADER)
        self._walk: _Request | None = None
        self._want = (0, 0)
        self._resume = 0  # where the search continues
        self._rest = b""  # the last bytes of the previous chunk, with which the next search or request begins
        self._base = 0
        self._data = b""  # the bytes from offset `_base`

    def feed(self, offset: int, chunk: bytes) -> None:
        """Read the bytes at `offset`, which continue the last chunk."""
        if self._walk is not None and self._want[0] >= offset + len(chunk):
            return  # inside a payload
        if self._walk is None and self._resume >= offset + len(chunk):
            return  # inside the payload of a container's last entry
        rest, self._rest = self._rest, b""
        if rest and self._walk is None and len(chunk) >= self._overlap:
            seam = rest + chunk[: self._overlap]
            if not any(word in seam for word in (MAGIC, ptx.VERSION, self._mark) if word):
                rest = b""  # avoids a copy of the chunk
        data = self._data = rest + chunk if rest else chunk
        self._base = offset - len(rest)
        position = self._base if self._walk else max(self._base, self._resume)
        while position < self._base + len(data):
            if self._walk is None:
                position = self._search(data, position)
                continue
            start, count = self._want
            if start + count > self._base + len(data):
                self._rest = data[start - self._base :] if start < self._base + len(data) else b""
                return
            position = self._answer(data[start - self._base : start - self._base + count], start)

    def finish(self) -> None:
        """Finish the file; a container that was cut off is listed as damaged."""
        if self._walk is not None:
            self._walk.close()
            self._walk = None

    def _search(self, data: bytes, position: int) -> int:
        """Search from `position`; return the next position, or the end of `data`."""
        start = position - self._base
        hit = find(data, MAGIC, start)
        if self._mark and not self.marked:
            self.marked = find(data, self._mark, start, hit if hit >= 0 else None) >= 0
        text = find(data, ptx.VERSION, start, hit if hit >= 0 else None)
        while text >= 0:
            if ptx.occurs(data[text : text + ptx.HEADER]):
                self.texts.add(self._base + text)
            text = find(data, ptx.VERSION, text + 1, hit if hit >= 0 else None)
        if hit < 0:
            keep = min(self._overlap - 1, len(data) - start)
            self._rest = data[len(data) - keep :] if keep else b""
            return self._base + len(data)
        self._walk = self._container(self._base + hit)
        return self._answer(None, self._base + hit)

    def _answer(self, data: bytes | None, start: int) -> int:
        """Send requested bytes to the walk, or start it; return the next position."""
        assert self._walk is not None  # noqa: S101 - feed() calls it only during a walk
        try:
            self._want = next(self._walk) if data is None else self._walk.send(data)
        except StopIteration:
            self._walk = None
            return max(self._resume, self._base)
        return max(start, self._want[0])

    def _at_once(self, offset: int, count: int) -> bytes:
        """Return these bytes, or b"" if `_data` does not have them all: a request takes longer."""
        start = offset - self._base
        return self._data[start : start + count] if start + count <= len(self._data) else b""

    def _container(self, offset: int) -> _Request:
        """Walk through one container: a coroutine that yields (offset, count) and receives those bytes.

        One run of `fatbinary` wrote it, so all its cubins are of the toolkit of the smallest one.
        """
        self.wheel.spend("entries", 1)
        header = self._at_once(offset, 16) or (yield offset, 16)
        (payload,) = struct.unpack_from("<Q", header, 8)
        self._resume = offset + len(MAGIC)  # if this is not a container
        end = offset + 16 + payload
        if payload < _ENTRY.size or end > self._size:
            return
        if not header.startswith(START):  # code that compares the magic number has no such numbers behind it
            if _NEWER.match(header):
                self.texts.add(offset)
            return
        entries: list[FatbinEntry] = []
        samples = _Samples()
        position = offset + 16
        damaged = True
        try:
            while position + _ENTRY.size <= end:
                header = self._at_once(position, _ENTRY.size) or (yield position, _ENTRY.size)
                found, step = entry(header)
                if position + step > end:
                    break
                (skip,) = struct.unpack_from("<I", header, 4)
                if skip + found.stored <= step and samples.includes(found):
                    place, count = position + skip, samples.bytes_of(found)
                    samples.add(found, self._at_once(place, count) or (yield place, count))
                self.wheel.spend("entries", 1)
                entries.append(found)
                position += step
            else:
                damaged = False
        except MalformedError:
            if not entries:
                return
        finally:
            if entries:
                version, empty = samples.judge(self)
                entries = (
                    [e._replace(toolkit=version) if e.kind == "cubin" else e for e in entries]
                    if version
                    else entries
                )
                self.containers.append(
                    FatbinContainer(offset, 16 + payload, tuple(entries), "", damaged, empty)
                )
        if entries:
            self._resume = end


def scan(data: bytes) -> Iterator[FatbinContainer]:
    """List the containers in `data`."""
    scanner = Scanner(len(data))
    scanner.feed(0, data)
    scanner.finish()
    yield from scanner.containers


def unpacked(entry: FatbinEntry, stored: bytes, *, largest: int = _LONGEST_UNPACKED) -> bytes:
    """Return the unpacked image; b"" if it is too large or cannot be unpacked."""
    if entry.compression == "none":
        return stored
    if not 0 < entry.size <= largest:
        return b""
    # either library is loaded when it is first needed: most wheels need one, many none
    if entry.compression == "lz4":
        import lz4.block  # noqa: PLC0415

        try:
            return bytes(lz4.block.decompress(stored, uncompressed_size=entry.size))
        except (lz4.block.LZ4BlockError, ValueError):
            return b""
    import zstandard  # noqa: PLC0415

    try:
        # it stops at this size, not at the frame's
        with zstandard.ZstdDecompressor().stream_reader(stored) as stream:
            return stream.read(entry.size)
    except zstandard.ZstdError:
        return b""


def images(data: bytes) -> Iterator[tuple[FatbinEntry, bytes]]:
    """Yield the images of the containers in `data`, unpacked. Raises MalformedError."""
    for container in scan(data):
        position, end = container.offset + 16, container.offset + container.size
        while position + _ENTRY.size <= end:
            found, step = entry(data[position : position + _ENTRY.size])
            (skip,) = struct.unpack_from("<I", data, position + 4)
            start = position + skip
            image = unpacked(found, data[start : start + found.stored], largest=_LONGEST_IMAGE)
            if not image:
                raise MalformedError.of(f"the {found.kind} for {found.target} cannot be unpacked")
            yield found, image
            position += step


_CHUNK = 8 << 20  # bytes


def containers(path: Path) -> tuple[FatbinContainer, ...]:
    """Return the fatbin containers of a file, with the ELF section of each. Raises MalformedError."""
    scanner = Scanner(path.stat().st_size)
    with path.open("rb") as stream:
        offset = 0
        while chunk := stream.read(_CHUNK):
            scanner.feed(offset, chunk)
            offset += len(chunk)
    scanner.finish()
    with opened(path) as file:
        return tuple(placed(scanner.containers, file.sections if file else ()))


def outside(
    containers: Sequence[FatbinContainer], texts: Iterable[FatbinContainer]
) -> Iterator[FatbinContainer]:
    """Yield the PTX texts that are in none of these containers, which are in the order of their offsets."""
    starts = [container.offset for container in containers]
    for text in texts:
        at = bisect_right(starts, text.offset) - 1
        if at < 0 or text.offset >= containers[at].offset + containers[at].size:
            yield text


def placed(unplaced: Iterable[FatbinContainer], sections: tuple[Section, ...]) -> Iterator[FatbinContainer]:
    """Yield containers with the names of the sections that they are in."""
    filled = sorted((s for s in sections if s.size), key=lambda s: s.offset)
    starts = [s.offset for s in filled]
    for container in unplaced:
        at = bisect_right(starts, container.offset) - 1
        inside = at >= 0 and container.offset < filled[at].offset + filled[at].size
        yield container._replace(section=filled[at].name if inside else "")
