"""Keeps the ranges of a stream of bytes that are needed to read an ELF file."""

from collections.abc import Iterable

from gpuforge.binary.elf.header import Header, read_header
from gpuforge.binary.elf.outline import front, outline
from gpuforge.binary.search import find
from gpuforge.binary.window import MissedError, Window
from gpuforge.errors import MalformedError

_RANGES = 256  # at most, of one file; valid files need a dozen
_NAMES = b"\0.shstrtab\0"
_AROUND = 1 << 14  # bytes kept on each side of it
_NEEDED = b"\0libc.so.6\0"  # is among the names of the NEEDED entries
_BESIDE_IT = 1 << 16


class KeptRanges:
    """Keeps ranges of a stream, and adds the ranges that the headers and the dynamic section point to."""

    def __init__(self, window: Window, ranges: Iterable[tuple[int, int]], front: int = 0) -> None:
        """Keep `ranges`, the ranges that they point to, and the first `front` bytes without code."""
        self.window = window
        self._front = front
        self._open = set(ranges)
        self._known = set(self._open)
        self._recent: tuple[tuple[int, bytes], ...] = ()  # the last two chunks, by offset
        self._header: Header | None = None
        self._seen_needed = False

    @property
    def stop(self) -> int:
        """The end of its last range."""
        return max((stop for _, stop in self._known), default=0)

    def take(self, offset: int, chunk: bytes) -> None:
        """Take the chunk at `offset`, which follows the last one."""
        self._recent = (*self._recent[-1:], (offset, chunk))
        end = offset + len(chunk)
        closed = False
        for start, stop in tuple(self._open):
            if start < end:
                self.window.keep(offset, chunk, start, stop)
            if stop <= end:
                self._open.remove((start, stop))
                closed = True
        while closed:
            closed = self._learn()
        if self._header and end > self._header.loaded_end:
            self._find_names()
        elif not self._seen_needed:
            self._find_needed()

    def _learn(self) -> bool:
        """Add the ranges that are known by now; return whether one of them is already complete."""
        try:
            self._header = self._header or read_header(self.window)
            ranges = front(self._header, self._front) + outline(self.window, self._header)
        except MalformedError:  # reported when the file is read
            return False
        except MissedError as missed:  # BOLT puts the headers at the end: the front is not known yet
            ranges = [(0, self._front), (missed.start, missed.stop)]
        kept = [self._want(start, stop) for start, stop in ranges[:_RANGES]]
        return any(kept)

    def _want(self, start: int, stop: int) -> bool:
        """Keep a range that does not begin before the present chunks; return whether it is complete."""
        if (start, stop) in self._known or start < self._recent[0][0] or len(self._known) > _RANGES:
            return False
        if self.window.has(start, stop):  # from an earlier pass
            return False
        self._known.add((start, stop))
        for at, chunk in self._recent:
            self.window.keep(at, chunk, start, stop)
        if stop <= self._recent[-1][0] + len(self._recent[-1][1]):
            return True
        self._open.add((start, stop))
        return False

    def _find_needed(self) -> None:
        """Keep the names of NEEDED entries: LLD and Go put them after the front, and before the dynamic section."""
        offset, chunk = self._recent[-1]
        if (hit := find(chunk, _NEEDED)) >= 0:
            self._seen_needed = True
            if offset + hit > self._front - _BESIDE_IT:
                start = max(self._recent[0][0], offset + hit - _BESIDE_IT)
                self._want(start, min(self.window.size, offset + hit + _BESIDE_IT))

    def _find_names(self) -> None:
        """Keep the sections' names: LLD puts them between the symbols and their names, and no header points to them."""
        (before, last), (offset, chunk) = self._recent[0], self._recent[-1]
        if before != offset and _NAMES in last[-len(_NAMES) :] + chunk[: len(_NAMES)]:
            self._want(offset - _AROUND, min(self.window.size, offset + _AROUND))
        if (hit := find(chunk, _NAMES)) >= 0:
            start = max(before, offset + hit - _AROUND)
            self._want(start, min(self.window.size, offset + hit + _AROUND))
