"""Finds the fatbin containers of one file, and the ELF sections that they are in."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gpuforge.binary.elf.file import opened
from gpuforge.binary.facts import FatbinContainer, Section
from gpuforge.binary.fatbin import Scanner

_CHUNK = 8 << 20  # bytes


def containers(path: Path) -> tuple[FatbinContainer, ...]:
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


def outside(
    containers: Sequence[FatbinContainer], texts: Iterable[FatbinContainer]
) -> Iterator[FatbinContainer]:
    """Yield the PTX texts that are in none of these containers, which are in the order of their offsets."""
    starts = [container.offset for container in containers]
    for text in texts:
        at = bisect_right(starts, text.offset) - 1
        if at < 0 or text.offset >= containers[at].offset + containers[at].size:
            yield text


def placed(unplaced: Iterable[FatbinContainer], sections: tuple[Section, ...]) -> Iterator[FatbinContainer]:
    """Yield containers with the names of the sections that they are in."""
    filled = sorted((s for s in sections if s.size), key=lambda s: s.offset)
    starts = [s.offset for s in filled]
    for container in unplaced:
        at = bisect_right(starts, container.offset) - 1
        inside = at >= 0 and container.offset < filled[at].offset + filled[at].size
        yield container._replace(section=filled[at].name if inside else "")
