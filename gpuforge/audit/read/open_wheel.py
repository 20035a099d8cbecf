"""Open a wheel, and start threads that read its binaries."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from operator import attrgetter
from typing import NamedTuple

from gpuforge.audit.elf_patterns import WheelPatterns
from gpuforge.audit.read.input import Input
from gpuforge.audit.read.parallel import started
from gpuforge.audit.read.scan import Scanned, binaries, scan
from gpuforge.wheel.archive import Archive, Member


class OpenWheel(NamedTuple):
    """A wheel, or an input that counts as one, whose binaries are being read; `scanned` waits for them."""

    source: Input
    archive: Archive
    binaries: Sequence[Member]
    scanned: Callable[[], Sequence[Scanned]]


def opened(source: Input, patterns: WheelPatterns, jobs: int, stack: ExitStack) -> OpenWheel:
    """Open an input, in whose binaries names are looked for; `stack` closes it and ends the threads, `jobs` at most."""
    archive = stack.enter_context(source.open())
    members = [] if source.remote and source.remote.outline else binaries(archive)
    claims = source.claims

    def scan_member(member: Member) -> Scanned:
        return scan(archive, member, source.label, patterns.of(claims, member.name))

    threads = started(scan_member, members, attrgetter("size"), jobs)
    return OpenWheel(source, archive, members, stack.enter_context(threads))
