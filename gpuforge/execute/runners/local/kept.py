"""A command with its keeper, from gpuforge's side: started, asked to stop, stopped, waited for."""

from __future__ import annotations

import marshal
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpuforge.execute.runners.local import keeper

_SLOW_S = 30.0  # seconds that a keeper may be late by; then somebody has stopped it


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended: its status (negative: a signal), whether its time was over, and how many processes are left.

    `error` is the number (errno) of why it could not be started; `status` is None where its keeper was ended.
    """

    status: int | None
    is_late: bool = False
    left: int = 0
    error: int = 0


class Kept:
    """A command that was started in `folder`, with its output in `log` and at most `seconds` of time."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], folder: Path, log: IO[bytes], seconds: float
    ) -> None:
        told, self._orders = os.pipe()
        self._reports, reported = os.pipe()
        self._seconds = min(seconds, threading.TIMEOUT_MAX / 2)
        command = [sys.executable, "-I", "-S", keeper.__file__, str(told), str(reported)]
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o022,
                pass_fds=(told, reported),
            )
        except BaseException:
            os.close(self._orders)
            os.close(self._reports)
            raise
        finally:
            os.close(told)
            os.close(reported)
        self._guard = threading.Lock()
        with suppress(BrokenPipeError), os.fdopen(os.dup(self._orders), "wb") as stream:
            marshal.dump(([*argv], {**env}, self._seconds), stream)

    def stop(self) -> None:
        """Ask the command to end, by SIGTERM."""
        with self._guard, suppress(OSError):
            if self._orders >= 0:
                os.write(self._orders, keeper.STOP)

    def kill(self) -> None:
        """End the command and all that it has started, at once."""
        self._let_go()
        timer = threading.Timer(_SLOW_S, self._process.kill)
        timer.daemon = True
        timer.start()

    def _let_go(self) -> None:
        with self._guard:
            if self._orders >= 0:
                os.close(self._orders)
                self._orders = -1

    def wait(self) -> End:
        """Return how the command ended, once nothing of it runs any more."""
        text = b""
        try:
            while select.select([self._reports], [], [], self._seconds + _SLOW_S)[0]:
                more = os.read(self._reports, 4096)
                if not more:
                    break
                text += more
        finally:
            self._let_go()
            os.close(self._reports)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SLOW_S)
        self._process.kill()
        self._process.wait()
        found = dict(line.rsplit(" ", 1) for line in text.decode().splitlines())
        status = int(found[keeper.ENDED]) if keeper.ENDED in found else None
        return End(
            status,
            keeper.LATE in found,
            int(found.get(keeper.LEFT, 0)),
            int(found.get(keeper.NOT_STARTED, 0)),
        )
