"""Run a command of a test to its end; its output is passed on, and the end of it is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_KEPT = 256 * 1024  # bytes of a command's output, from its end, that are looked at
_GRACE = 2.0  # seconds


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended: its exit status (negative: a signal), its seconds, and its last lines."""

    status: int
    seconds: float
    lines: tuple[str, ...]


def run(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Ran:
    """Run a command to its end, its output passed on as it comes; raises OSError when it cannot be started."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    kept = bytearray()
    reader = threading.Thread(target=_pass_on, args=(process, kept), daemon=True)
    reader.start()
    status = process.wait()
    seconds = time.monotonic() - begin
    reader.join(timeout=_GRACE)  # processes that it left running may hold the pipe for ever
    return Ran(status, seconds, tuple(line.rstrip() for line in kept.decode(errors="replace").splitlines()))


def _pass_on(process: subprocess.Popen[bytes], kept: bytearray) -> None:
    stream = process.stdout
    assert stream is not None  # noqa: S101  it is a pipe
    with stream:
        while chunk := os.read(stream.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            kept += chunk
            del kept[:-_KEPT]


def last_line(lines: Sequence[str]) -> str:
    """Return the most telling line of a failure: the last that is not blank, where Python writes its error."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def failure(command: str, status: int, line: str) -> str:
    """Return how a failed command ended, with the line of its output that explains it."""
    ended = f"failed with exit status {status}"
    if status < 0:
        known = -status in {number.value for number in signal.Signals}
        ended = f"was ended by {signal.Signals(-status).name if known else f'signal {-status}'}"
    return f"`{command}` {ended}" + (f": {line}" if line else "")
