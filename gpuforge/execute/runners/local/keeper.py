"""Runs commands and gpuforge's own steps, and ends, with each, all processes that it started, even in other sessions.

It is a separate program, the server, which forks a keeper for each command, and the keeper forks the command. As a
"child subreaper" (prctl(2)) a keeper becomes the parent of processes whose own parent has ended. It ends all of them
when the command has ended, when its time is over, and when gpuforge has ended, even by SIGKILL.

The server imports the modules of steps while it has nothing else to do. A step starts in its fork without another
Python; a project's code never runs in the server, nor in a process that others are forked from.
"""

import atexit
import ctypes
import gc
import importlib
import marshal
import os
import resource
import runpy
import select
import signal
import socket
import sys
import time
import traceback
from collections import deque
from contextlib import suppress
from typing import NoReturn

STOP = b"t"  # over the pipe from gpuforge: ask the command to end; the pipe's end: end everything now
# The words of reports, each with a number.
KEEPER, LATE, NOT_STARTED, LEFT, PEAK, ENDED = "keeper", "late", "not started", "left", "peak", "ended"
MOST_BYTES = 1 << 16  # of a message to the server
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_CLEARING_S = 10.0  # seconds; a process that the kernel does not end by then is left


def serve(descriptor: int) -> None:
    """Make a keeper for each message on a socket, which brings a pipe of orders, a log and a pipe of reports.

    They are closed in this order: at the end of the reports, no process has the log open any more. A message without
    them names modules to import, which is done while no other message waits.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped by the kernel
    gc.disable()
    channel = socket.socket(fileno=descriptor)
    waiting: deque[str] = deque()
    while True:
        if waiting and not select.select([channel], [], [], 0)[0]:
            _import(waiting.popleft())
            continue
        data, handles, _, _ = socket.recv_fds(channel, MOST_BYTES, 3)
        if not data:
            return
        waiting.extend(data.decode().split())
        if not handles:
            continue
        if not _forked(handles[2]):
            channel.close()
            try:
                keep(*handles)
            finally:
                os._exit(0)
        for handle in handles:
            os.close(handle)


def _forked(reports: int) -> int:
    """Fork, and return the child's number, 0 in the child; if there is no room for it, report that and return -1."""
    try:
        return os.fork()
    except OSError as error:
        _report(reports, NOT_STARTED, error.errno or 0)
        _report(reports, ENDED, 127)
        return -1


def _import(module: str) -> None:
    """Import a module for the steps that are forked later; what is wrong with it is found when it runs."""
    with suppress(Exception):
        importlib.import_module(module)
    gc.freeze()  # a collection in a fork would look at all of it, and copy the memory


def keep(orders: int, log: int, reports: int) -> None:
    """Run the command that comes through the pipe `orders`; write `WORD NUMBER` lines into `reports`."""
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.setsid()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    _report(reports, KEEPER, os.getpid())
    with os.fdopen(os.dup(orders), "rb", buffering=0) as order:
        argv, env, folder, seconds, is_step, overlays = marshal.load(order)  # noqa: S302  written by this very gpuforge
    wakeups, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(wakeups, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    child = _forked(reports)
    if child < 0:
        return
    if not child:
        _become(argv, env, folder, reports, overlays, is_step=is_step)
    status = _follow(child, orders, wakeups, time.monotonic() + seconds)
    if status is None:
        _report(reports, LATE, 0)
    if left := _clear(time.monotonic() + _CLEARING_S):
        _report(reports, LEFT, left)
    # getrusage(2): in KiB
    _report(reports, PEAK, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
    _report(reports, ENDED, -signal.SIGKILL if status is None else status)


def _become(
    argv: list[str],
    env: dict[str, str],
    folder: str,
    reports: int,
    overlays: list[tuple[str, str, str]],
    *,
    is_step: bool,
) -> None:
    """Become the command, in a session of its own."""
    try:
        if overlays:
            private_mounts = importlib.import_module(
                "gpuforge.private_mounts"
            )  # this program has no gpuforge else
            private_mounts.lay(overlays)
        os.chdir(folder)
        os.umask(0o022)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if is_step:
            _run_step(argv, env)
        os.execvpe(argv[0], argv, env)  # noqa: S606
    except OSError as error:
        _report(reports, NOT_STARTED, error.errno or 0)
    finally:
        os._exit(127)


def _run_step(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Run `PYTHON -I -m MODULE ARGUMENT…` here, as a new Python would, and end this process."""
    status: object = 1
    try:
        for handle in filter(lambda number: number > 2, map(int, os.listdir("/proc/self/fd"))):  # noqa: PTH208
            with suppress(OSError):  # the one of the list itself
                os.close(handle)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.enable()
        os.environ.clear()
        os.environ.update(env)
        time.tzset()
        _, _, _, module, *arguments = argv
        sys.argv = [module, *arguments]
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001  as Python itself reports it
        traceback.print_exc()
    try:
        atexit._run_exitfuncs()  # as multiprocessing does after a fork
        sys.stdout.flush()
    except OSError:  # the disk of the log is full
        status = status or 120
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


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
