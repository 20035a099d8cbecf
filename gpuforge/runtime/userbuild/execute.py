"""Runs a program with limits on its time and stored output, and the ways in which a compilation ends without one."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

FAILED, USAGE, MISSING, INTERRUPTED = 1, 2, 3, 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818  an end that was foreseen
    """Nothing was activated: `args[0]` is the reason and the fix, in one line; `status` is the exit status.

    `log` is the compiler's output.
    """

    def __init__(self, message: str, status: int = FAILED, *, log: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.log = log


class Interrupted(BaseException):
    """A signal requested the end of this process; `args[0]` is its name. Only the command itself may catch it."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Make the signals that end a process raise Interrupted, once, so that the clean-up is not interrupted again.

    An ignored signal, as by nohup, stays ignored. In other threads than the main one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def interrupt(number: int, _: FrameType | None) -> None:
        for other in _SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(signal.Signals(number).name)

    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let signals wait until the block has finished."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_GROUP = Path(__file__).with_name("group.py")
_KEPT = 1 << 19  # bytes from the output's beginning, and as many from its end
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Ended:
    """The end of a program: `status` is negative for a signal, None if it took too long."""

    status: int | None
    output: bytes


class Output:
    """A program's output with standard error; beyond a megabyte its middle is left out."""

    def __init__(self) -> None:
        self._head, self._tail, self._left_out = b"", b"", 0

    def add(self, data: bytes) -> None:
        room = _KEPT - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        if len(self._tail) > 2 * _KEPT:
            self._left_out += len(self._tail) - _KEPT
            self._tail = self._tail[-_KEPT:]

    def text(self) -> bytes:
        gap = f"\n[{self._left_out} bytes are left out here]\n".encode() if self._left_out else b""
        return self._head + gap + self._tail


def execute(
    argv: Sequence[str], *, env: Mapping[str, str], limit: float, folder: Path | None = None
) -> Ended:
    """Run a program to its end, for `limit` seconds at most.

    All its processes end with it, unless they started their own session. They also end if a signal ends this process,
    or an exception leaves this function. Raises OSError if it cannot be run.
    """
    status_end, status = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, status_end)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GROUP), str(status), *argv],
                cwd=folder,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(status,),
                start_new_session=True,
            )
        finally:
            os.close(status)
        stack.enter_context(process)
        stack.callback(_end, process)
        result, output = _follow(process, status_end, time.monotonic() + limit)
    if result is None:
        return Ended(None, output.text())
    if "errno" in result:
        raise OSError(result["errno"], os.strerror(result["errno"]), argv[0])
    # No status: something else has ended the group.
    return Ended(result.get("status", -signal.SIGKILL), output.text())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the group; its leader was not waited for yet, so the number is still its own."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _follow(
    process: subprocess.Popen[bytes], status: int, end: float
) -> tuple[dict[str, int] | None, Output]:
    """Return the status that the group's leader writes, and the output; {} if it wrote none, None after the limit."""
    assert process.stdout  # noqa: S101  it is a pipe
    printed, output = process.stdout.fileno(), Output()
    watched = [printed, status]
    while True:
        left = end - time.monotonic()
        ready = select.select(watched, [], [], max(0.0, left))[0]
        if printed in ready and left > 0:
            data = os.read(printed, _CHUNK)
            output.add(data)
            if not data:
                watched.remove(printed)
        elif status in ready:
            return json.loads(os.read(status, _CHUNK) or b"{}"), output
        elif left <= 0:
            return None, output
