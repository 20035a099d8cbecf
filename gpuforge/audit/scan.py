"""Read one binary member of a wheel in a single pass: what ELF wants of it, and its GPU code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuforge.audit import elf, fatbin, ptx
from gpuforge.audit.inflate import Archive, Member
from gpuforge.audit.model import Container, ElfObject, MalformedError
from gpuforge.audit.source import MissedError, Window

ARCHIVE_MAGIC = b"!<arch>\n"
_HEAD = 24 << 20  # bytes kept of a file's beginning: where linkers put names, versions and strings
_PASSES = 6


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one member turned out to be; `problem` says why it could not be read as what it seems."""

    file: str
    object: ElfObject | None = None
    containers: tuple[Container, ...] = ()
    problem: str = ""


def is_binary(name: str, head: bytes) -> bool:
    """Say whether a member with these first bytes can hold ELF or GPU code."""
    return head[:4] in (elf.MAGIC, fatbin.MAGIC, ARCHIVE_MAGIC[:4]) or name.endswith(".ptx")


def scan(archive: Archive, member: Member, wheel: str) -> Scanned:
    """Read one member; damage inside it becomes its `problem`."""
    try:
        return _scan(archive, member, wheel)
    except MalformedError as error:
        return Scanned(member.name, problem=error.diagnostics[0].message)


def _scan(archive: Archive, member: Member, wheel: str) -> Scanned:
    window, scanner = _first_pass(archive, member)
    head = window.read_up_to(0, 64)
    if head[:4] != elf.MAGIC:
        if member.name.endswith(".ptx") and (
            found := ptx.standalone(window.read_up_to(0, 1 << 16), member.size)
        ):
            return Scanned(member.name, containers=(found,))
        return Scanned(member.name, containers=tuple(scanner.containers))
    for _ in range(_PASSES):
        try:
            found_object = elf.read(window, wheel=wheel, file=member.name)
            break
        except MissedError as missed:
            _fetch(archive, member, window, (missed.start, missed.stop))
    else:
        return Scanned(member.name, problem="its parts refer to one another without end")
    return _with_device_code(found_object, head, scanner)


class _Keeper:
    """Keeps the ranges of a stream that ELF wants, and learns of more while the stream goes by."""

    def __init__(self, window: Window, ranges: Iterable[tuple[int, int]]) -> None:
        self.window = window
        self._parts: dict[tuple[int, int], list[bytes]] = {key: [] for key in ranges}
        self._known = set(self._parts)

    @property
    def stop(self) -> int:
        """Where the last of its ranges ends."""
        return max((stop for _, stop in self._known), default=0)

    def take(self, offset: int, chunk: bytes) -> None:
        """Take the bytes at `offset`, where the last chunk ended."""
        end = offset + len(chunk)
        for (start, stop), parts in list(self._parts.items()):
            if start < end and stop > offset:
                parts.append(chunk[max(0, start - offset) : stop - offset])
            if stop <= end:
                self.window.add({start: b"".join(self._parts.pop((start, stop)))})
                self._learn(end)

    def _learn(self, position: int) -> None:
        try:
            wanted = elf.outline(self.window)
        except (MalformedError, MissedError):  # said, or fetched, when the file is read
            return
        for start, stop in wanted:
            if start >= position and (start, stop) not in self._known:
                self._known.add((start, stop))
                self._parts[start, stop] = []


def _first_pass(archive: Archive, member: Member) -> tuple[Window, fatbin.Scanner]:
    scanner = fatbin.Scanner(member.size)
    window = Window(member.size)
    keeper = _Keeper(window, {(0, min(member.size, 4096)), (0, min(member.size, _HEAD))})
    offset = 0
    for chunk in archive.chunks(member):
        scanner.feed(offset, chunk)
        keeper.take(offset, chunk)
        offset += len(chunk)
    scanner.finish()
    return window, scanner


def _fetch(archive: Archive, member: Member, window: Window, missed: tuple[int, int]) -> None:
    """Bring a range that was missed, and with it whatever else is known to be missing."""
    keeper = _Keeper(window, [missed, *(r for r in elf.outline(window) if not window.has(*r))])
    offset = 0
    for chunk in archive.chunks(member):
        keeper.take(offset, chunk)
        offset += len(chunk)
        if offset >= keeper.stop:
            break


def _with_device_code(found: ElfObject, head: bytes, scanner: fatbin.Scanner) -> Scanned:
    containers = tuple(replace(c, section=_section_at(found, c.offset)) for c in scanner.containers)
    markers = found.markers
    if scanner.static_cudart and not found.soname.startswith("libcudart"):
        markers |= {"static-cudart"}
    if found.machine == elf.EM_CUDA:
        containers += (fatbin.standalone_cubin(head, found.size),)
    found = replace(found, containers=containers, markers=markers)
    return Scanned(found.file, found, containers)


def _section_at(found: ElfObject, offset: int) -> str:
    return next((s.name for s in found.sections if s.offset <= offset < s.offset + s.size), "")
