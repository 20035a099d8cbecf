"""Servers that tests of clusters start: each a process group of its own, which is gone when the test ends."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def free_ports(count: int, *, below: int = 65_000) -> list[int]:
    """Return ports that nobody listens on now; `below` leaves room for servers that add a number to theirs."""
    found: list[int] = []
    while len(found) < count:
        port = 20_000 + secrets.randbelow(
            below - 20_000
        )  # not in a row: others look for some at the same time
        with contextlib.suppress(OSError), socket.socket() as each:
            each.bind(("127.0.0.1", port))
            found.append(port)
    return found


@dataclass
class Service:
    """A server: `argv` with `env` added to ours, its output in `log`, ready once `port` answers (0: at once)."""

    argv: Sequence[str]
    log: Path
    port: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 60) -> None:
        """Start it; raises OSError with the end of its output when it does not get ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        end = time.monotonic() + seconds
        while self.port and not answers(self.port):
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                tail = self.log.read_text(errors="replace")[-2000:]
                msg = f"{self.argv[0]} did not get ready:\n{tail}"
                raise OSError(msg)
            time.sleep(0.05)

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End its whole process group by SIGKILL."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self, seconds: float = 10) -> None:
        """Ask it to end, and end it."""
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        self.kill()


def answers(port: int) -> bool:
    """Return whether somebody on this machine listens on a port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
