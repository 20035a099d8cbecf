"""Reads section headers and the names of sections (gABI, "Section Header")."""

from gpuforge.binary.elf.header import Header, layout
from gpuforge.binary.elf.strings import StringTable
from gpuforge.binary.facts import Section
from gpuforge.binary.window import Window
from gpuforge.errors import MalformedError

SHT_PROGBITS, SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 1, 2, 7, 8, 11
SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 0x2, 0x4, 0x800

Row = tuple[int, int, int, int, int, int]  # name, type, flags, offset, size, link


def read_rows(window: Window, header: Header) -> list[Row]:
    """Return the section headers. Raises MalformedError, and MissedError if they were not kept."""
    size, count = header.section_size, header.section_count
    if not count:
        return []
    fields = layout(header.order + ("III4xIII12x" if header.bits == 32 else "IIQ8xQQI20x"))
    if size < fields.size:
        raise MalformedError.of(f"section headers of {size} bytes")
    window.budget.spend("entries", count)
    table = window.read(header.section_offset, size * count)
    if size == fields.size:
        return list(fields.iter_unpack(table))
    return [fields.unpack_from(table, index * size) for index in range(count)]


def read_names(window: Window, header: Header, rows: list[Row]) -> list[str]:
    """Return the name of each section. Raises MalformedError, and MissedError if they were not kept."""
    if not rows:
        return []
    if header.section_names >= len(rows):
        raise MalformedError.of("its section names lie in a section that is not there")
    _, _, _, offset, size, _ = rows[header.section_names]
    return StringTable(window, offset, size).texts([row[0] for row in rows]) if size else [""] * len(rows)


def read_sections(window: Window, header: Header) -> tuple[Section, ...]:
    """Return all sections. Raises MalformedError, and MissedError if they were not kept."""
    rows = read_rows(window, header)
    return tuple(
        Section(name, start, 0 if kind == SHT_NOBITS else size, kind, flags, link)
        for name, (_, kind, flags, start, size, link) in zip(
            read_names(window, header, rows), rows, strict=True
        )
    )
