"""Runs commands and ends, with each, all processes that it started, even in other sessions or process groups.

It is a separate program, which makes a process for each command, its keeper. As a "child subreaper" (prctl(2)) a keeper
becomes the parent of processes whose own parent has ended. It ends all of them when the command has ended, when its
time is over, and when gpuforge has ended, even by SIGKILL.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

STOP = b"t"  # over the pipe from gpuforge: ask the command to end; the pipe's end: end everything now
# The words of reports, each with a number.
KEEPER, LATE, NOT_STARTED, LEFT, ENDED = "keeper", "late", "not started", "left", "ended"
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_CLEARING_S = 10.0  # seconds; a process that the kernel does not end by then is left


def serve(descriptor: int) -> None:
    """Make a keeper for each message on a socket, which brings a pipe of orders, a log and a pipe of reports.

    They are closed in this order: at the end of the reports, no process has the log open any more.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped by the kernel
    channel = socket.socket(fileno=descriptor)
    while True:
        data, handles, _, _ = socket.recv_fds(channel, 1, 3)
        if not data:
            return
        if not os.fork():
            channel.close()
            try:
                keep(*handles)
            finally:
                os._exit(0)
        for handle in handles:
            os.close(handle)


def keep(orders: int, log: int, reports: int) -> None:
    """Run the command that comes through the pipe `orders`; write `WORD NUMBER` lines into `reports`."""
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.setsid()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    _report(reports, KEEPER, os.getpid())
    with os.fdopen(os.dup(orders), "rb", buffering=0) as order:
        argv, env, folder, seconds = marshal.load(order)  # noqa: S302  written by this very gpuforge
    wakeups, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(wakeups, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    child = os.fork()
    if not child:
        _become(argv, env, folder, reports)
    status = _follow(child, orders, wakeups, time.monotonic() + seconds)
    if status is None:
        _report(reports, LATE, 0)
    if left := _clear(time.monotonic() + _CLEARING_S):
        _report(reports, LEFT, left)
    _report(reports, ENDED, -signal.SIGKILL if status is None else status)


def _become(argv: list[str], env: dict[str, str], folder: str, reports: int) -> None:
    """Become the command, in a session of its own."""
    try:
        os.chdir(folder)
        os.umask(0o022)
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


def _follow(child: int, orders: int, wakeups: int, end: float) -> int | None:
    """Wait until the command has ended, and return its status (negative: a signal); None if its time is over first."""
    while True:
        with suppress(BlockingIOError):
            os.read(wakeups, 4096)
        for pid, status in _reaped():
            if pid == child:
                return os.waitstatus_to_exitcode(status)
        ready, _, _ = select.select([orders, wakeups], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        if orders in ready:
            if not os.read(orders, 64):
                return -signal.SIGKILL
            with suppress(OSError):
                os.killpg(child, signal.SIGTERM)


def _reaped() -> list[tuple[int, int]]:
    """Reap the children that have ended, and return their numbers and statuses."""
    found = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _clear(end: float) -> int:
    """End all descendants: first the children, whose own children then become ours; return how many are left at `end`.

    The number of a child that is not reaped is not reused, so no other process can get the signal.
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
    """Return the numbers of this process's children; if it has none, without a look at every process."""
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
    serve(int(sys.argv[1]))
