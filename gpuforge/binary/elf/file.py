"""An open ELF file: its bytes, headers, sections, dynamic section, notes and symbol versions.

Sections and notes: gABI, "Section Header" and "Note Section". Symbol versions: LSB core, "Symbol Versioning",
https://refspecs.linuxfoundation.org/lsb.shtml
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from gpuforge.binary.elf.header import (
    DT_VERDEF,
    DT_VERNEED,
    EM_X86_64,
    MAGIC,
    PT_INTERP,
    PT_NOTE,
    Dynamic,
    Header,
    StringTable,
    is_program,
    layout,
    read_header,
)
from gpuforge.binary.facts import Section, VersionNeed
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

SHT_PROGBITS, SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 7, 8, 11
SHT_LLVM_OFFLOADING = 0x6FFF4C0B  # https://llvm.org/docs/Extensions.html: the images of clang's offloading
SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 0x2, 0x4, 0x800

Row = tuple[int, int, int, int, int, int, int]  # name, type, flags, offset, size, link, address


def read_rows(window: Window, header: Header) -> list[Row]:
    """Return the section headers. Raises MalformedError, and MissedError if they were not kept."""
    size, count = header.section_size, header.section_count
    if not count:
        return []
    fields = layout(header.order + ("IIIIIII12x" if header.bits == 32 else "IIQQQQI20x"))
    if size < fields.size:
        raise MalformedError.of(f"section headers of {size} bytes")
    window.budget.spend("entries", count)
    table = window.read(header.section_offset, size * count)
    return [
        (name, kind, flags, offset, length, link, address)
        for name, kind, flags, address, offset, length, link in (
            fields.iter_unpack(table)
            if size == fields.size
            else (fields.unpack_from(table, index * size) for index in range(count))
        )
    ]


def read_names(window: Window, header: Header, rows: list[Row]) -> list[str]:
    """Return the name of each section. Raises MalformedError, and MissedError if they were not kept."""
    if not rows:
        return []
    if header.section_names >= len(rows):
        raise MalformedError.of("its section names lie in a section that is not there")
    _, _, _, offset, size, _, _ = rows[header.section_names]
    return StringTable(window, offset, size).texts([row[0] for row in rows]) if size else [""] * len(rows)


def read_sections(window: Window, header: Header) -> tuple[Section, ...]:
    """Return all sections. Raises MalformedError, and MissedError if they were not kept."""
    rows = read_rows(window, header)
    return tuple(
        Section(name, start, 0 if kind == SHT_NOBITS else size, kind, flags, link, address, size)
        for name, (_, kind, flags, start, size, link, address) in zip(
            read_names(window, header, rows), rows, strict=True
        )
    )


_LONGEST_COMMENT = 1 << 16  # bytes


class ElfFile:
    """An ELF file; each part is read when it is used, and may raise MalformedError or MissedError."""

    def __init__(self, window: Window) -> None:
        """Read the headers."""
        self.window = window
        self.header = read_header(window)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Every section; empty if the section headers were removed."""
        return read_sections(self.window, self.header)

    @cached_property
    def dynamic(self) -> Dynamic:
        """The dynamic section; empty for a static file."""
        return Dynamic(self.window, self.header)

    @property
    def is_program(self) -> bool:
        """Whether it is a program, not a library."""
        interpreter = self.header.segment(PT_INTERP) is not None
        return is_program(self.header.type, self.dynamic.values, interpreter=interpreter)

    @property
    def interpreter(self) -> str:
        """The path of its dynamic linker (PT_INTERP); "" without one."""
        segment = self.header.segment(PT_INTERP)
        return self.window.text(segment.offset, segment.offset + segment.size) if segment else ""

    @property
    def comment(self) -> tuple[str, ...]:
        """The lines of `.comment`, each once: names of compilers and linkers."""
        section = self.section(".comment")
        if section is None:
            return ()
        return lines(self.window.read(section.offset, min(section.size, _LONGEST_COMMENT)))

    def section(self, name: str) -> Section | None:
        """Return the first section of a name."""
        return next((s for s in self.sections if s.name == name), None)


@contextmanager
def opened(path: Path) -> Iterator[ElfFile | None]:
    """Open a file for a `with` block; None if it is not ELF. Raises MalformedError."""
    with path.open("rb") as stream:
        if stream.read(4) != MAGIC:
            yield None
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield ElfFile(Window.of(data))


def lines(comment: bytes) -> tuple[str, ...]:
    """Return the lines in the bytes of `.comment`, each once."""
    return tuple(
        dict.fromkeys(line.decode("utf-8", "backslashreplace") for line in comment.split(b"\0") if line)
    )


_NT_GNU_BUILD_ID, _NT_GNU_ABI_TAG = 3, 1
_SYSTEMS = {0: "Linux", 1: "Hurd", 2: "Solaris", 3: "FreeBSD"}
_X86_ISA_1_NEEDED, _X86_ISA_1_USED = 0xC0008002, 0xC0010002
_LONGEST_NOTES, _LONGEST_PROPERTIES = 1 << 16, 1 << 12  # bytes of a segment


def build_id(file: ElfFile) -> str:
    """Return the build ID in hexadecimal, "" without one. Raises MalformedError and MissedError."""
    return next((content.hex() for kind, content in _gnu_notes(file) if kind == _NT_GNU_BUILD_ID), "")


def system(file: ElfFile) -> str:
    """Return the system that a file demands in its ABI note, "Linux 4.11.0"; "" without one.

    glibc ignores a library for another system, and until 2.36 one for a newer kernel (elf/dl-load.c, open_verify).
    """
    fields = layout(file.header.order + "4I")
    for kind, content in _gnu_notes(file):
        if kind == _NT_GNU_ABI_TAG and len(content) == fields.size:
            number, *release = fields.unpack(content)
            return f"{_SYSTEMS.get(number, 'another system')} {'.'.join(map(str, release))}"
    return ""


def _gnu_notes(file: ElfFile) -> Iterator[tuple[int, bytes]]:
    fields = layout(file.header.order + "III")
    for notes in _notes(file, _LONGEST_NOTES):
        position = 0
        while position + 12 <= len(notes):
            name, size, kind = fields.unpack_from(notes, position)
            start = position + 12 + (name + 3) // 4 * 4
            if notes[position + 12 : position + 16] == b"GNU\0":
                yield kind, notes[start : start + size]
            position = start + (size + 3) // 4 * 4


def isa(file: ElfFile, *, used: bool = False) -> str:
    """Return "x86-64-v3" by GNU_PROPERTY_X86_ISA_1_NEEDED (x86-64 psABI, "Program Property"), "" for the baseline.

    Or the highest level that is `used`, which assemblers write only if they were configured to.
    """
    if file.header.machine != EM_X86_64:
        return ""
    property_head = layout("<II").pack(_X86_ISA_1_USED if used else _X86_ISA_1_NEEDED, 4)
    for notes in _notes(file, _LONGEST_PROPERTIES):
        at = notes.find(property_head)
        if b"GNU\0" in notes[:at] and 0 <= at <= len(notes) - 12:
            levels = int.from_bytes(notes[at + 8 : at + 12], "little")
            return next((f"x86-64-v{n}" for n in (4, 3, 2) if levels & 1 << (n - 1)), "")
    return ""


def _notes(file: ElfFile, longest: int) -> Iterator[bytes]:
    for segment in file.header.segments:
        if segment.type == PT_NOTE and segment.size <= longest:
            yield file.window.read(segment.offset, segment.size)


_LONGEST_VERSION = 1 << 10  # characters of a version


def version_needs(file: ElfFile) -> Iterator[VersionNeed]:
    """Yield the versions that a file needs, library by library. Raises MalformedError and MissedError."""
    for library, versions in _needs(file):
        yield VersionNeed(library, tuple(name for _, name in versions))


def needed_versions(file: ElfFile) -> dict[int, tuple[str, str]]:
    """Return each version that a file needs, after its library, by its number in DT_VERSYM. Raises the same errors."""
    return {number: (library, name) for library, versions in _needs(file) for number, name in versions}


def defined_versions(file: ElfFile) -> dict[int, str]:
    """Return the versions that a file defines by their numbers; empty without any. Raises the same errors."""
    window, strings = file.window, file.dynamic.strings
    if DT_VERDEF not in file.dynamic.values:
        return {}
    place, names = file.dynamic.place(DT_VERDEF), dict[int, str]()
    row, part = layout(file.header.order + "HHHHIII"), layout(file.header.order + "II")
    for _ in range(window.size // 20):
        release, _, number, _, hashed, first, following = row.unpack(window.read(place, row.size))
        _check_release("Verdef", release)
        window.budget.spend("entries", 1)
        name = strings.text(part.unpack(window.read(place + first, part.size))[0])
        # old patchelfs wrote XXXX over the names: the file loads, and nothing that needs a version finds it
        names[number] = name if version_hash(name) == hashed else f"{name} (hash of another name)"
        if not following:
            break
        place += following
    return names


def version_hash(name: str) -> int:
    """Return the hash of a symbol version (gABI, "Hash Table")."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value


def _check_hash(version: str, hashed: int) -> None:
    """Raise MalformedError for a version with the hash of another name: glibc compares hashes first."""
    if version_hash(version) != hashed:
        raise MalformedError.of(f"the symbol version {version:.80} has the hash of another name")


def _check_release(table: str, release: int) -> None:
    """Raise MalformedError for a record of a version that glibc refuses (elf/dl-version.c)."""
    if release != 1:
        raise MalformedError.of(
            f"its symbol versions ({table}) have version {release}, and glibc takes only 1"
        )


def _needs(file: ElfFile) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    window, values, strings = file.window, file.dynamic.values, file.dynamic.strings
    if DT_VERNEED not in values:
        return
    need = file.dynamic.place(DT_VERNEED)
    row, part = layout(file.header.order + "HHIII"), layout(file.header.order + "IHHII")
    left = window.size // 16
    for _ in range(left):  # glibc follows the chain to its end and ignores DT_VERNEEDNUM
        release, count, library, first, following = row.unpack(window.read(need, 16))
        _check_release("Verneed", release)
        window.budget.spend("entries", 1 + count)
        names, position = [], need + first
        left -= count
        if left < 0:
            raise MalformedError.of("it needs more symbol versions than fit into it")
        for _ in range(count):
            hashed, _, number, name, step = part.unpack(window.read(position, 16))
            names.append((number, strings.text(name)))
            if len(names[-1][1]) > _LONGEST_VERSION:
                raise MalformedError.of(f"a symbol version of {len(names[-1][1])} characters")
            _check_hash(names[-1][1], hashed)
            if not step:
                break
            position += step
        yield strings.text(library), names
        if not following:
            break
        need += following
