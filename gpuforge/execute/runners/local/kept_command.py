"""gpuforge's side of a command with its keeper: start it, ask it to stop, stop it, wait for it."""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from gpuforge.execute.runners.local import keeper
from gpuforge.private_mounts import Overlay

_LONGEST_S = 10.0**8
_SLOW_S = 30.0  # seconds that a keeper may be late; after that, something has stopped it
_STARTING_S = 120.0  # seconds that the program may take to make a keeper: it may be importing


class End(NamedTuple):
    """How a command ended: its status (negative: a signal), whether its time was over, and how many processes are left.

    `memory` is the most that one of its processes took, in bytes. `error` is the errno if it could not be started;
    `status` is None if its keeper was killed.
    """

    status: int | None
    is_late: bool = False
    left: int = 0
    error: int = 0
    memory: int = 0


class Keepers:
    """The program that makes keepers; it ends with this process."""

    _guard = threading.Lock()
    _of_this_process: Keepers | None = None

    @classmethod
    def of_this_process(cls) -> Keepers:
        """Return the one for all runs of this process; it is started if there is none or it was killed."""
        with cls._guard:
            if cls._of_this_process is None or cls._of_this_process._process.poll() is not None:
                cls._of_this_process = cls()
            return cls._of_this_process

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", keeper.__file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # as a log, it is no terminal: forks have the same `sys.stdout`
                env={"LC_ALL": "C.UTF-8"},  # what steps import cannot read more
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )

    def prepare(self, modules: Iterable[str]) -> None:
        """Import modules of steps into the program, while it has nothing else to do."""
        with suppress(BrokenPipeError):  # the program was killed; without this, steps only start later
            self._channel.send(" ".join([" ", *modules]).encode())  # an empty message would be the end

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        log: IO[bytes],
        seconds: float,
        *,
        step: str = "",
        overlays: Sequence[Overlay] = (),
    ) -> KeptCommand:
        """Start a command in `folder`, with its output in `log`, at most `seconds` of time, and `overlays` in its view.

        If `argv` runs a `step`, a module of gpuforge, this is forked from the program; any other command is started
        as a program.
        """
        keepers_orders, orders = os.pipe()
        reports, keepers_reports = os.pipe()
        seconds = min(seconds, _LONGEST_S)
        try:
            socket.send_fds(
                self._channel, [f" {step}".encode()], [keepers_orders, log.fileno(), keepers_reports]
            )
            with os.fdopen(os.dup(orders), "wb", buffering=0) as stream:
                os.close(keepers_orders)
                keepers_orders = -1
                stream.write(
                    marshal.dumps(
                        (
                            [*argv],
                            {**env},
                            str(folder),
                            seconds,
                            bool(step),
                            [tuple(each) for each in overlays],
                        )
                    )
                )
        except BrokenPipeError:  # the program was killed: `wait` finds no report
            pass
        finally:
            for handle in (keepers_orders, keepers_reports):
                if handle >= 0:
                    os.close(handle)
        return KeptCommand(orders, reports, seconds, self._process)


class KeptCommand:
    """A command with its keeper, at the other ends of two pipes."""

    def __init__(self, orders: int, reports: int, seconds: float, maker: subprocess.Popen[bytes]) -> None:
        self._orders, self._reports, self._seconds, self._maker = orders, reports, seconds, maker
        self._guard = threading.Lock()

    def stop(self) -> None:
        """Ask the command to end, by SIGTERM."""
        with self._guard, suppress(OSError):
            if self._orders >= 0:
                os.write(self._orders, keeper.STOP)

    def kill(self) -> None:
        """End the command and all processes that it has started, at once."""
        with self._guard:
            if self._orders >= 0:
                os.close(self._orders)
                self._orders = -1

    def wait(self) -> End:
        """Return how the command ended, when none of its processes runs any more."""
        found: dict[str, int] = {}
        begin = time.monotonic()
        rest = b""
        try:
            while more := self._next(begin + (self._seconds + _SLOW_S if found else _STARTING_S)):
                *lines, rest = (rest + more).split(b"\n")
                for word, _, number in (line.decode().rpartition(" ") for line in lines):
                    found[word] = int(number)
        except TimeoutError:  # a command has stopped its keeper, or the program that makes them
            with suppress(OSError):
                if keeper.KEEPER in found:
                    os.kill(found[keeper.KEEPER], signal.SIGKILL)
                else:
                    self._maker.kill()
                    self._maker.wait()  # else the next command is still given to it
        finally:
            self.kill()
            os.close(self._reports)
        status = found.get(keeper.ENDED)
        left, error, memory = (found.get(word, 0) for word in (keeper.LEFT, keeper.NOT_STARTED, keeper.PEAK))
        return End(status, keeper.LATE in found, left, error, memory)

    def _next(self, end: float) -> bytes:
        """Return the keeper's next report; raises TimeoutError when it should have ended long ago."""
        while not select.select([self._reports], [], [], 1.0)[0]:
            if self._orders < 0:
                end = min(end, time.monotonic() + _SLOW_S)
            if time.monotonic() > end:
                raise TimeoutError
        return os.read(self._reports, 4096)
