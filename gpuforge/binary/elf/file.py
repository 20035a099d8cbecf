"""An open ELF file: its bytes, headers, sections and dynamic section."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from gpuforge.binary.elf.dynamic import Dynamic, is_program
from gpuforge.binary.elf.header import MAGIC, PT_INTERP, read_header
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
