"""The ends of a compilation without a library: a message, and the exit status."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
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
