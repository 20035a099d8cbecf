"""Reads notes: the build ID, and the level of x86-64 that a file needs (gABI, "Note Section")."""

from collections.abc import Iterator

from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.elf.header import EM_X86_64, PT_NOTE, layout

_NT_GNU_BUILD_ID = 3
_X86_ISA_1_NEEDED = 0xC0008002
_LONGEST, _LONGEST_PROPERTIES = 1 << 16, 1 << 12  # bytes of a segment


def build_id(file: ElfFile) -> str:
    """Return the build ID in hexadecimal, "" without one. Raises MalformedError and MissedError."""
    fields = layout(file.header.order + "III")
    for notes in _segments(file, _LONGEST):
        position = 0
        while position + 12 <= len(notes):
            name, size, kind = fields.unpack_from(notes, position)
            start = position + 12 + (name + 3) // 4 * 4
            if kind == _NT_GNU_BUILD_ID and notes[position + 12 : position + 16] == b"GNU\0":
                return notes[start : start + size].hex()
            position = start + (size + 3) // 4 * 4
    return ""


def isa(file: ElfFile) -> str:
    """Return "x86-64-v3" by GNU_PROPERTY_X86_ISA_1_NEEDED (x86-64 psABI, "Program Property"), "" for the baseline."""
    if file.header.machine != EM_X86_64:
        return ""
    fields = layout("<II")
    property_head = fields.pack(_X86_ISA_1_NEEDED, 4)
    for notes in _segments(file, _LONGEST_PROPERTIES):
        at = notes.find(property_head)
        if b"GNU\0" in notes[:at] and 0 <= at <= len(notes) - 12:
            levels = int.from_bytes(notes[at + 8 : at + 12], "little")
            return next((f"x86-64-v{n}" for n in (4, 3, 2) if levels & 1 << (n - 1)), "")
    return ""


def _segments(file: ElfFile, longest: int) -> Iterator[bytes]:
    for segment in file.header.segments:
        if segment.type == PT_NOTE and segment.size <= longest:
            yield file.window.read(segment.offset, segment.size)
