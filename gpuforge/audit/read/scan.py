"""Read one binary member of a wheel in a single pass: what ELF wants of it, and its GPU code."""

from collections.abc import Iterable
from typing import NamedTuple

from gpuforge.audit.read.elf_patterns import patterns, static_cudart
from gpuforge.binary import fatbin, ptx
from gpuforge.binary.device_code import placed
from gpuforge.binary.elf.header import MAGIC, Header, is_cubin, read_header
from gpuforge.binary.elf.outline import front, outline
from gpuforge.binary.elf.reader import read
from gpuforge.binary.facts import Container, ElfObject
from gpuforge.binary.window import MissedError, Window
from gpuforge.errors import CorruptError, MalformedError
from gpuforge.wheel.archive import Archive, Member

ARCHIVE_MAGIC = b"!<arch>\n"
_HEAD = 24 << 20  # bytes kept of a file's beginning: where linkers put names, versions and strings
# bytes of a file that is read in one piece, which is quicker than choosing what to keep of it
_WHOLE = 2 << 20
_START = 1 << 16  # bytes kept of any file: the headers of an ELF file, the directives of a PTX text
_PASSES = 6
_ENDLESS = "its parts refer to one another without end"
_SOURCES = (".py", ".pyi", ".h", ".hpp", ".cuh", ".inl", ".cmake", ".c", ".cc", ".cpp", ".cu")
_RANGES = 256  # that are kept of one file; sound files need a dozen
_NAMES = b"\0.shstrtab\0"
_AROUND = 1 << 14  # bytes kept on each side of it
_NEEDED = b"\0libc.so.6\0"  # in the names that the dynamic section speaks of
_BESIDE_IT = 1 << 16


class Scanned(NamedTuple):
    """What one member turned out to be; `problem` says why it could not be read as what it seems."""

    file: str
    object: ElfObject | None = None
    containers: tuple[Container, ...] = ()
    problem: str = ""
    corrupt: bool = False  # it could not even be unpacked


def binaries(archive: Archive) -> list[Member]:
    """Return the members that can hold ELF or GPU code, and those that cannot be unpacked."""
    members = (m for m in archive.members if m.packed and not m.name.endswith(_SOURCES))
    return [m for m in members if m.name.endswith((".ptx", ".cubin")) or _begins_as_binary(archive, m)]


def _begins_as_binary(archive: Archive, member: Member) -> bool:
    try:
        return archive.head(member, 4) in {MAGIC, fatbin.MAGIC, ARCHIVE_MAGIC[:4]}
    except CorruptError:  # `scan` reports it
        return True


def scan(archive: Archive, member: Member, wheel: str) -> Scanned:
    """Read one member; damage inside it becomes its `problem`."""
    try:
        return _scan(archive, member, wheel)
    except MalformedError as error:
        corrupt = isinstance(error, CorruptError)
        return Scanned(member.name, problem=error.diagnostics[0].message, corrupt=corrupt)
    except MissedError:  # in what nothing has fetched: other wheels are still to be read
        return Scanned(member.name, problem=_ENDLESS)


def _scan(archive: Archive, member: Member, wheel: str) -> Scanned:
    window, scanner = (_whole if member.size <= _WHOLE else _first_pass)(archive, member)
    head = window.read_up_to(0, 64)
    if head[:4] != MAGIC:
        if member.name.endswith(".ptx") and (
            found := ptx.standalone(window.read_up_to(0, 1 << 16), member.size)
        ):
            return Scanned(member.name, containers=(found,))
        return Scanned(member.name, containers=tuple(scanner.containers))
    for _ in range(_PASSES):
        try:
            sought = patterns(stable_abi=_stable_abi(wheel, member.name))
            found_object = read(window, sought, wheel=wheel, file=member.name)
            break
        except MissedError as missed:
            _fetch(archive, member, window, (missed.start, missed.stop))
    else:
        return Scanned(member.name, problem=_ENDLESS)
    return _with_device_code(found_object, scanner)


class _Keeper:
    """Keeps the ranges of a stream that ELF wants, and learns of more while the stream goes by."""

    def __init__(self, window: Window, ranges: Iterable[tuple[int, int]], front: int = 0) -> None:
        """Keep `ranges`, what they say of others, and of the first `front` bytes all but code."""
        self.window = window
        self._front = front
        self._open = set(ranges)
        self._known = set(self._open)
        self._recent: tuple[tuple[int, bytes], ...] = ()  # the last two chunks, by offset
        self._header: Header | None = None
        self._seen_needed = False

    @property
    def stop(self) -> int:
        """Where the last of its ranges ends."""
        return max((stop for _, stop in self._known), default=0)

    def take(self, offset: int, chunk: bytes) -> None:
        """Take the bytes at `offset`, where the last chunk ended."""
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
        """Ask for what is known to be wanted by now; return whether some of it was in hand."""
        try:
            self._header = self._header or read_header(self.window)
            wanted = front(self._header, self._front) + outline(self.window, self._header)
        except MalformedError:  # said when the file is read
            return False
        except MissedError as missed:  # of the headers, which BOLT puts behind: the front is not known yet
            wanted = [(0, self._front), (missed.start, missed.stop)]
        kept = [self._want(start, stop) for start, stop in wanted[:_RANGES]]
        return any(kept)

    def _want(self, start: int, stop: int) -> bool:
        """Keep a range that does not begin before the chunks in hand; return whether all of it is there."""
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
        """Keep the names of what is NEEDED: LLD and Go put them far behind the front, and before what says where."""
        offset, chunk = self._recent[-1]
        if (hit := chunk.find(_NEEDED)) >= 0:
            self._seen_needed = True
            if offset + hit > self._front - _BESIDE_IT:
                start = max(self._recent[0][0], offset + hit - _BESIDE_IT)
                self._want(start, min(self.window.size, offset + hit + _BESIDE_IT))

    def _find_names(self) -> None:
        """Keep the sections' names, which LLD puts between the symbols and their names: no header says where."""
        (before, last), (offset, chunk) = self._recent[0], self._recent[-1]
        if before != offset and _NAMES in last[-len(_NAMES) :] + chunk[: len(_NAMES)]:
            self._want(offset - _AROUND, min(self.window.size, offset + _AROUND))
        if (hit := chunk.find(_NAMES)) >= 0:
            start = max(before, offset + hit - _AROUND)
            self._want(start, min(self.window.size, offset + hit + _AROUND))


def _whole(archive: Archive, member: Member) -> tuple[Window, fatbin.Scanner]:
    data = archive.data(member)
    scanner = fatbin.Scanner(len(data), static_cudart().text)
    if not is_cubin(data):  # which has no containers in it
        scanner.feed(0, data)
        scanner.finish()
    return Window.of(data), scanner


def _first_pass(archive: Archive, member: Member) -> tuple[Window, fatbin.Scanner]:
    scanner = fatbin.Scanner(member.size, static_cudart().text)
    window = Window(member.size)
    keeper = _Keeper(window, {(0, min(member.size, _START))}, min(member.size, _HEAD))
    offset = 0
    for chunk in archive.chunks(member):
        scanner.feed(offset, chunk)
        keeper.take(offset, chunk)
        offset += len(chunk)
    scanner.finish()
    return window, scanner


def _fetch(archive: Archive, member: Member, window: Window, missed: tuple[int, int]) -> None:
    """Bring a range that was missed, and with it whatever else is known to be missing."""
    try:
        ranges = outline(window, read_header(window))
    except MissedError:  # of what the headers themselves say
        ranges = []
    keeper = _Keeper(window, [missed, *(r for r in ranges if not window.has(*r))])
    offset = 0
    for chunk in archive.chunks(member):
        keeper.take(offset, chunk)
        offset += len(chunk)
        if offset >= keeper.stop:
            break


def _with_device_code(found: ElfObject, scanner: fatbin.Scanner) -> Scanned:
    containers = (*placed(scanner.containers, found.sections), *found.containers)
    markers = found.markers
    cudart = static_cudart()
    if scanner.marked and not found.soname.startswith(cudart.own):
        markers |= {cudart.marker}
    found = found._replace(containers=containers, markers=markers)
    return Scanned(found.file, found, containers)


def _stable_abi(wheel: str, file: str) -> bool:
    return file.endswith(".abi3.so") or ("-abi3-" in wheel and file.endswith(".so"))
