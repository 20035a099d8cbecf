"""Read one binary member of a wheel in a single pass: its ELF facts and its GPU code."""

from typing import NamedTuple

from gpuforge.audit.read.kept_ranges import KeptRanges
from gpuforge.binary import ar, fatbin, ptx
from gpuforge.binary.elf.header import MAGIC, is_cubin, read_header
from gpuforge.binary.elf.outline import outline
from gpuforge.binary.elf.reader import read
from gpuforge.binary.elf.symbols import Patterns, TextMarker
from gpuforge.binary.facts import ElfObject, FatbinContainer
from gpuforge.binary.fatbin import outside, placed
from gpuforge.binary.window import MissedError, Window
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
    corrupt: bool = False  # it could not even be unpacked


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
        return Scanned(member.name, containers=tuple(scanner.containers))
    for _ in range(_PASSES):
        try:
            found_object = read(window, sought, wheel=wheel, file=member.name)
            break
        except MissedError as missed:
            _fetch(archive, member, window, (missed.start, missed.stop))
    else:
        return Scanned(member.name, problem=_ENDLESS)
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
    markers = binary.markers
    if scanner.marked and not binary.soname.startswith(mark.own):
        markers |= {mark.name}
    binary = binary._replace(containers=containers, markers=markers)
    return Scanned(binary.file, binary, containers)
