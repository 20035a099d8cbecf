"""An ELF file as the readers of its parts see it: bytes, headers, sections and the dynamic section."""

from functools import cached_property

from gpuforge.binary.elf.dynamic import Dynamic
from gpuforge.binary.elf.header import PT_INTERP, read_header
from gpuforge.binary.elf.sections import read_sections
from gpuforge.binary.facts import Section
from gpuforge.binary.window import Window

_LONGEST_COMMENT = 1 << 16  # bytes


class ElfFile:
    """An ELF file; each part is read when it is used, and may raise MalformedError or MissedError."""

    def __init__(self, window: Window) -> None:
        """Read the headers."""
        self.window = window
        self.header = read_header(window)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Every section; none where the section headers were removed."""
        return read_sections(self.window, self.header)

    @cached_property
    def dynamic(self) -> Dynamic:
        """The dynamic section; without entries in a file that has none."""
        return Dynamic(self.window, self.header)

    @property
    def interpreter(self) -> str:
        """The dynamic linker that the file names (PT_INTERP); "" without one."""
        segment = self.header.segment(PT_INTERP)
        return self.window.text(segment.offset, segment.offset + segment.size) if segment else ""

    @property
    def comment(self) -> tuple[str, ...]:
        """The lines of `.comment`, each once: the compilers and linkers that took part."""
        section = self.section(".comment")
        if section is None:
            return ()
        return lines(self.window.read(section.offset, min(section.size, _LONGEST_COMMENT)))

    def section(self, name: str) -> Section | None:
        """Return the first section of a name."""
        return next((s for s in self.sections if s.name == name), None)


def lines(comment: bytes) -> tuple[str, ...]:
    """Return the lines in the bytes of `.comment`, each once."""
    return tuple(
        dict.fromkeys(line.decode("utf-8", "backslashreplace") for line in comment.split(b"\0") if line)
    )
