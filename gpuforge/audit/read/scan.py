"""Read one binary member of a wheel in a single pass: its ELF facts and its GPU code."""

from collections.abc import Iterable
from typing import NamedTuple

from gpuforge.binary import aarch64, ar, fatbin, hip, ptx
from gpuforge.binary.elf.header import MAGIC, Header, is_cubin, read_header
from gpuforge.binary.elf.reader import front, outline, read
from gpuforge.binary.elf.symbols import Patterns, TextMarker
from gpuforge.binary.facts import ElfObject, FatbinContainer
from gpuforge.binary.fatbin import outside, placed
from gpuforge.binary.pe import PeFile
from gpuforge.binary.window import MissedError, Window, find
from gpuforge.errors import CorruptError, MalformedError, TooLargeError
from gpuforge.wheel.archive import Archive, Member

_HEAD = 24 << 20  # bytes kept of a file's beginning: where linkers put names, versions and strings
# files up to this size are read whole, which is faster than keeping ranges
_WHOLE = 2 << 20
_START = 1 << 16  # bytes kept of any file: the headers of an ELF file, the directives of a PTX text
_PASSES = 6
_ENDLESS = "its parts refer to one another without end"
_SOURCES = (".py", ".pyi", ".h", ".hpp", ".cuh", ".inl", ".cmake", ".c", ".cc", ".cpp", ".cu")


class Scanned(NamedTuple):
    """The facts of one member; `problem` is the reason if it could not be read."""

    file: str
    object: ElfObject | None = None
    containers: tuple[FatbinContainer, ...] = ()
    problem: str = ""
    hidden: bool = False  # it has PTX that is in no constant, so that it is not in `containers`
    is_archive: bool = False  # of `ar`
    corrupt: bool = False  # it could not even be unpacked
    pe: PeFile | None = None


def binaries(archive: Archive) -> list[Member]:
    """Return the members that can hold ELF or GPU code, and those that cannot be unpacked."""
    members = (m for m in archive.members if m.packed and not m.name.endswith(_SOURCES))
    return [
        m for m in members if m.name.endswith((".ptx", ".cubin", ".vmfb")) or _begins_as_binary(archive, m)
    ]


def _begins_as_binary(archive: Archive, member: Member) -> bool:
    try:
        return archive.head(member, 4) in {MAGIC, fatbin.MAGIC, ar.MAGIC[:4]}
    except MalformedError:  # `scan` reports it
        return True


def scan(archive: Archive, member: Member, wheel: str, sought: Patterns) -> Scanned:
    """Read one member of a wheel, and look for names in it; damage inside it becomes its `problem`."""
    try:
        return _scan(archive, member, wheel, sought)
    except TooLargeError as error:
        from traceback import clear_frames  # noqa: PLC0415  few wheels come here

        clear_frames(error.__traceback__)  # otherwise each of thousands would keep the bytes of its member
        raise
    except MalformedError as error:
        corrupt = isinstance(error, CorruptError)
        return Scanned(member.name, problem=error.diagnostics[0].message, corrupt=corrupt)
    except MissedError:  # after all passes; the other members are still read
        return Scanned(member.name, problem=_ENDLESS)


def _scan(archive: Archive, member: Member, wheel: str, sought: Patterns) -> Scanned:
    window, scanner = (_whole if member.size <= _WHOLE else _first_pass)(archive, member, sought.text)
    head = window.read_up_to(0, 64)
    if head[:4] != MAGIC:
        if member.name.endswith(".ptx") and (
            found := ptx.standalone(window.read_up_to(0, 1 << 16), member.size)
        ):
            return Scanned(member.name, containers=(found,))
        if member.name.endswith(".vmfb"):
            return Scanned(member.name, containers=ptx.embedded(archive.data(member)))
        return Scanned(
            member.name,
            containers=tuple(scanner.containers),
            hidden=bool(scanner.texts),
            is_archive=head.startswith(ar.MAGIC),
        )
    for _ in range(_PASSES):
        try:
            found_object = read(window, sought, wheel=wheel, file=member.name)
            break
        except MissedError as missed:
            _fetch(archive, member, window, (missed.start, missed.stop))
    else:
        return Scanned(member.name, problem=_ENDLESS)
    for section in found_object.sections:
        if section.name == hip.SECTION:  # read once more: few wheels have it
            bundles = hip.bundles(archive.chunks(member), section.offset, section.size, archive.budget)
            found_object = found_object._replace(hip=(*found_object.hip, *bundles))
        elif section.name == ".text" and found_object.processor == "aarch64":
            chunks = archive.chunks(member)
            lse = aarch64.needs_lse(chunks, section.offset, section.size)
            found_object = found_object._replace(lse=lse)
    return _with_device_code(found_object, scanner, sought.text)


def _whole(archive: Archive, member: Member, mark: TextMarker) -> tuple[Window, fatbin.Scanner]:
    data = archive.data(member)
    scanner = fatbin.Scanner(len(data), mark.text, archive.budget)
    if not is_cubin(data):  # a cubin has no containers in it
        scanner.feed(0, data)
        scanner.finish()
    return Window.of(data, archive.budget), scanner


def _first_pass(archive: Archive, member: Member, mark: TextMarker) -> tuple[Window, fatbin.Scanner]:
    scanner = fatbin.Scanner(member.size, mark.text, archive.budget)
    window = Window(member.size, budget=archive.budget)
    kept = KeptRanges(window, {(0, min(member.size, _START))}, min(member.size, _HEAD))
    offset = 0
    for chunk in archive.chunks(member):
        scanner.feed(offset, chunk)
        kept.take(offset, chunk)
        offset += len(chunk)
    scanner.finish()
    return window, scanner


def _fetch(archive: Archive, member: Member, window: Window, missed: tuple[int, int]) -> None:
    """Read a range that was missed, together with the other known missing ranges."""
    try:
        ranges = outline(window, read_header(window))
    except MissedError:  # the headers are missing, too
        ranges = []
    kept = KeptRanges(window, [missed, *(r for r in ranges if not window.has(*r))])
    offset = 0
    for chunk in archive.chunks(member):
        kept.take(offset, chunk)
        offset += len(chunk)
        if offset >= kept.stop:
            break


def _with_device_code(binary: ElfObject, scanner: fatbin.Scanner, mark: TextMarker) -> Scanned:
    found = tuple(placed(scanner.containers, binary.sections))
    containers = (*found, *outside(found, binary.containers))
    texts = [(each.offset, each.offset + each.size) for each in binary.containers]
    hidden = any(not any(start <= at < end for start, end in texts) for at in scanner.texts)
    markers = binary.markers
    if scanner.marked and not binary.soname.startswith(mark.own):
        markers |= {mark.name}
    binary = binary._replace(containers=containers, markers=markers)
    return Scanned(binary.file, binary, containers, hidden=hidden)


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
