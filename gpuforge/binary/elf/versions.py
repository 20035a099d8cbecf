"""Reads symbol versions (LSB core, "Symbol Versioning": https://refspecs.linuxfoundation.org/lsb.shtml)."""

from collections.abc import Iterator

from gpuforge.binary.elf.dynamic import DT_VERNEED
from gpuforge.binary.elf.file import ElfFile
from gpuforge.binary.elf.header import layout
from gpuforge.binary.facts import VersionNeed
from gpuforge.errors import MalformedError

_LONGEST = 1 << 10  # characters of a version


def needs(file: ElfFile) -> Iterator[VersionNeed]:
    """Yield the versions that a file needs, library by library. Raises MalformedError and MissedError."""
    window, values, strings = file.window, file.dynamic.values, file.dynamic.strings
    if DT_VERNEED not in values:
        return
    need = file.dynamic.place(DT_VERNEED)
    row, part = layout(file.header.order + "HHIII"), layout(file.header.order + "IHHII")
    left = window.size // 16
    for _ in range(left):  # glibc follows the chain to its end and ignores DT_VERNEEDNUM
        _, count, library, first, following = row.unpack(window.read(need, 16))
        window.budget.spend("entries", 1 + count)
        names, position = [], need + first
        left -= count
        if left < 0:
            raise MalformedError.of("it needs more symbol versions than fit into it")
        for _ in range(count):
            _, _, _, name, step = part.unpack(window.read(position, 16))
            names.append(strings.text(name))
            if len(names[-1]) > _LONGEST:
                raise MalformedError.of(f"a symbol version of {len(names[-1])} characters")
            if not step:
                break
            position += step
        yield VersionNeed(strings.text(library), tuple(names))
        if not following:
            break
        need += following
