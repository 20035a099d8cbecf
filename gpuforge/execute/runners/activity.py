"""The running tasks of a runner, and how they are stopped: the same for every runner of this machine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRACE = 5.0  # seconds between asking a process to stop and stopping it


class Activity:
    """The running tasks. `send` sends a signal to all of their commands; `guard` is the lock of a runner's own notes.

    Once `cancelled` is set, nothing more is started.
    """

    def __init__(self, send: Callable[[signal.Signals], None], grace: float) -> None:
        self.cancelled = threading.Event()
        self.guard = threading.Condition()
        self._send = send
        self._grace = grace
        self._running = 0

    @contextmanager
    def task(self) -> Iterator[None]:
        """Count a task during the `with`."""
        with self.guard:
            self._running += 1
        try:
            yield
        finally:
            with self.guard:
                self._running -= 1
                self.guard.notify_all()

    def cancel(self) -> None:
        """Stop everything: by SIGTERM, after a grace time by SIGKILL; returns when nothing runs any more."""
        self.cancelled.set()
        self._send(signal.SIGTERM)
        if not self._quiet():
            self.kill()

    def kill(self) -> None:
        """Stop everything by SIGKILL, at once."""
        self.cancelled.set()
        self._send(signal.SIGKILL)
        self._quiet()

    def _quiet(self) -> bool:
        with self.guard:
            return self.guard.wait_for(lambda: not self._running, timeout=self._grace)
