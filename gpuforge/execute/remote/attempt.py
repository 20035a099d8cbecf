"""One job from the client's side: followed from its submission to its end, its log copied as it grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuforge.execute.objects.port import ObjectsError
from gpuforge.execute.outcome import ActionResult
from gpuforge.execute.remote.board import Board, End, Pulse
from gpuforge.execute.remote.port import Ticket

LOOK_S = 1.0  # seconds between two looks at the board, at first
_SELDOM_S = 10.0  # seconds between two looks at a long action, and at the worker's beat
_LONG = 30  # the time between two looks is the age of the job, divided by this
GONE_S = 60.0  # seconds without a sign of life of the worker, after which another one gets the work
_PATIENCE_S = 30.0  # seconds that the store may be out of reach
_STOPPING_S = 30.0  # seconds that a worker may take to stop a job that is killed


Loss = Literal["lost", "stopped"]


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended. A "lost" one has no result: its worker died, or cannot be seen any more."""

    how: End | Loss
    worker: str = ""
    result: ActionResult | None = None
    word: str = ""  # the engine's explanation of a lost one


class JobAttempt:
    """Follows one job. `stop` asks to end it, `now` not to wait for that.

    `idle` gets at each look whether the job waits for a worker.
    """

    def __init__(
        self,
        board: Board,
        ticket: Ticket,
        action: str,
        log: Path,
        *,
        stop: threading.Event,
        now: threading.Event,
        idle: Callable[[bool], None],
    ) -> None:
        self._board = board
        self._ticket = ticket
        self._action = action
        self._log = log
        self._stop = stop
        self._now = now
        self._idle = idle
        self._pieces = 0
        self._worker = ""

    def follow(self) -> AttemptEnd:
        """Return how the job ended."""
        pulse = Pulse(self._board.beaten, GONE_S)
        until: float | None = None  # when to stop waiting for it
        begin = reached = felt = time.monotonic()
        while True:
            is_over = self._wait(time.monotonic() - begin)
            try:
                if ended := self._look():
                    return ended
                reached = time.monotonic()
            except ObjectsError:
                if time.monotonic() > reached + _PATIENCE_S:
                    raise
                continue
            if is_over:
                how: Loss = "stopped" if self._stop.is_set() else "lost"
                return AttemptEnd(how, self._worker, word=self._ticket.word())
            if self._worker and reached - felt >= _SELDOM_S:
                felt = reached
                if not pulse.is_there():
                    return AttemptEnd("lost", self._worker, word=f"it was not seen for {GONE_S:.0f} s")
            self._idle(not self._worker)
            if self._stop.is_set() and until is None:
                until = time.monotonic() + (_STOPPING_S if self._worker else 0.0)
                self._board.kill()
            if until is not None and (self._now.is_set() or time.monotonic() > until):
                return AttemptEnd("stopped", self._worker)

    def _wait(self, age: float) -> bool:
        """Wait until the next look at a job that was submitted so many seconds ago; return whether it is over.

        A look takes 7 ms of CPU if the store is a bucket; the engine reports the end of the job.
        """
        due = time.monotonic() + min(max(age / _LONG, LOOK_S), _SELDOM_S)
        while not self._now.is_set():
            if self._ticket.wait(LOOK_S):
                return True
            if self._stop.is_set() or time.monotonic() >= due:
                return False
        return self._ticket.wait(0.0)

    def _look(self) -> AttemptEnd | None:
        """Copy what is new in the log; return the end, if it is there."""
        ended = self._board.ended(self._action)  # read before the log, which is complete then
        self._worker = self._worker or self._board.taken_by()
        for text in self._board.logged(self._pieces):
            with self._log.open("ab") as log:
                log.write(text)
            self._pieces += 1
        return AttemptEnd(ended[0], self._worker, ended[1]) if ended else None
