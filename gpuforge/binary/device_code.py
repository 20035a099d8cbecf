"""The fatbin containers of one file, and the ELF sections that they are in."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuforge.binary.elf.file import opened
from gpuforge.binary.facts import Container, Section
from gpuforge.binary.fatbin import Scanner

_CHUNK = 8 << 20  # bytes


def containers(path: Path) -> tuple[Container, ...]:
    """Return the fatbin containers of a file, with the ELF section of each. Raises MalformedError."""
    scanner = Scanner(path.stat().st_size)
    with path.open("rb") as stream:
        offset = 0
        while chunk := stream.read(_CHUNK):
            scanner.feed(offset, chunk)
            offset += len(chunk)
    scanner.finish()
    with opened(path) as file:
        return tuple(placed(scanner.containers, file.sections if file else ()))


def placed(found: Iterable[Container], sections: tuple[Section, ...]) -> Iterator[Container]:
    """Yield containers with the name of their section; mostly it is that of the container before."""
    here = Section("", 0, 0)
    for c in found:
        if not here.offset <= c.offset < here.offset + here.size:
            here = next((s for s in sections if s.offset <= c.offset < s.offset + s.size), Section("", 0, 0))
        yield c._replace(section=here.name)
