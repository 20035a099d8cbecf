"""Do some work within limits of memory and processor time that the kernel enforces, and continue after it."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def within(memory: int, seconds: int) -> Iterator[None]:
    """Limit the work in the context to so many more bytes of data, and so many seconds of processor time.

    Raises ValueError when either is not enough. Only the main thread can do so.
    """

    def late(number: int, frame: FrameType | None) -> None:
        msg = f"it takes more than {seconds} seconds of processor time"
        raise ValueError(msg)

    before = signal.signal(signal.SIGXCPU, late)
    old = {what: resource.getrlimit(what) for what in (resource.RLIMIT_DATA, resource.RLIMIT_CPU)}
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_DATA, _data() + memory)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds)
    try:
        yield
    except MemoryError:
        msg = f"it takes more than {memory >> 20} MiB of memory"
        raise ValueError(msg) from None
    finally:
        for what, limits in old.items():
            resource.setrlimit(what, limits)
        signal.signal(signal.SIGXCPU, before)


def _data() -> int:
    """Return the bytes of data that this process has now: https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html"""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    return pages * resource.getpagesize()


def _lower(what: int, limit: int) -> None:
    """Set a limit, as far as the existing one allows."""
    soft, hardest = resource.getrlimit(what)
    resource.setrlimit(what, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hardest))
