"""The watchdog of a job on a worker: it sends the log to the client, and ends the job when the client is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuforge.execute.objects.port import ObjectsError
from gpuforge.execute.remote.board import Board, Pulse

BEAT_S = 1.0  # seconds between two looks
LEASE_S = 30.0  # seconds without a sign of life of the client, after which its jobs are ended
_PIECE = 1 << 20  # bytes of a log that are sent at once


class Watchdog:
    """Watches one job during a `with`; `stop` ends the running command."""

    def __init__(self, board: Board, log: Path, stop: Callable[[], None], *, lease: float = LEASE_S) -> None:
        self._board = board
        self._log = log
        self._stop = stop
        self._client = Pulse(board.client, lease)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._read_to = 0
        self._pieces = 0
        self.is_alone = False  # whether it ended the job because its client is gone

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if not self.is_alone:
            self._hand_on()

    def _watch(self) -> None:
        count = 0
        while not self._over.wait(BEAT_S if count else 0):
            count += 1
            killed = False
            with suppress(
                OSError, ObjectsError
            ):  # the store cannot be reached now; if that lasts, the lease ends
                self._board.beat(count)
                self._hand_on()
                killed = self._board.is_killed()
            self.is_alone = not self._client.is_there()
            if killed or self.is_alone:
                self._stop()
                return

    def _hand_on(self) -> None:
        """Write what is new in the log to the board."""
        try:
            with self._log.open("rb") as stream:
                stream.seek(self._read_to)
                while text := stream.read(_PIECE):
                    self._board.log(self._pieces, text)
                    self._read_to += len(text)
                    self._pieces += 1
        except FileNotFoundError:  # nothing was started yet
            return
