"""Runs one command and ends with it all that it has started, also what has left its session or its process group.

A program of its own, between gpuforge and the command: as a "child subreaper" (prctl(2)) it becomes the parent of what
loses its own. It ends everything when the command has ended, when its time is over, and when gpuforge goes away, be it
by SIGKILL.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import signal
import sys
import time
from contextlib import suppress

STOP = b"t"  # over the pipe from gpuforge: ask the command to end; the pipe's end: end everything now
LATE, NOT_STARTED, ENDED, LEFT = "late", "not started", "ended", "left"  # what is reported, with a number
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_CLEARING_S = 10.0  # seconds; a process that the kernel does not let go of is left


def main(orders: int, reports: int) -> None:
    """Do what the other end of the pipe `orders` wants; write `WORD NUMBER` lines into `reports`."""
    with os.fdopen(os.dup(orders), "rb") as stream:
        argv, env, seconds = marshal.load(stream)  # noqa: S302  written by this very gpuforge
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    heard, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(heard, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    child = os.fork()
    if not child:
        _become(argv, env, reports)
    status = _follow(child, orders, heard, time.monotonic() + seconds)
    if status is None:
        _report(reports, LATE, 0)
    if left := _clear(time.monotonic() + _CLEARING_S):
        _report(reports, LEFT, left)
    _report(reports, ENDED, -signal.SIGKILL if status is None else status)


def _become(argv: list[str], env: dict[str, str], reports: int) -> None:
    """Become the command, in a session of its own."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except OSError as error:
        _report(reports, NOT_STARTED, error.errno or 0)
    finally:
        os._exit(127)


def _report(reports: int, word: str, number: int) -> None:
    with suppress(OSError):  # gpuforge is gone
        os.write(reports, f"{word} {number}\n".encode())


def _follow(child: int, orders: int, heard: int, end: float) -> int | None:
    """Wait until the command has ended, and return its status (negative: a signal); None if its time is over first."""
    while True:
        with suppress(BlockingIOError):
            os.read(heard, 4096)
        for pid, status in _reaped():
            if pid == child:
                return os.waitstatus_to_exitcode(status)
        ready, _, _ = select.select([orders, heard], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        if orders in ready:
            if not os.read(orders, 64):
                return -signal.SIGKILL
            with suppress(OSError):
                os.killpg(child, signal.SIGTERM)


def _reaped() -> list[tuple[int, int]]:
    """Take leave of the children that have ended, and return their numbers and statuses."""
    found = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _clear(end: float) -> int:
    """End all descendants: children first, whose own children then are ours; return how many are left at `end`.

    The number of a child that is not reaped belongs to nobody else, so no other process can be hit.
    """
    while children := _children():
        if time.monotonic() > end:
            return len(children)
        for pid in children:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reaped()
        time.sleep(0.001)
    return 0


def _children() -> list[int]:
    """Return the numbers of this process's children; none without a look at every process where it has none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    own, found = str(os.getpid()).encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:  # noqa: PTH123
            if stream.read().rpartition(b")")[2].split()[1] == own:
                found.append(int(name))
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
