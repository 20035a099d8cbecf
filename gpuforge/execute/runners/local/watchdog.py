"""Stops what gpuforge started when gpuforge itself dies without a word (SIGKILL, out of memory).

Run as a program of its own: the parent writes `+GROUP` and `-GROUP` lines (process group numbers) to its
standard input; when that ends, all groups still listed are killed. `PR_SET_PDEATHSIG` would reach only
direct children, and needs code between fork and exec, which is unsafe in a program with threads.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress


class Watchdog:
    """The parent's end: starts the program with the first group, ends it with `close`."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", __file__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, start_new_session=True
        )

    def watch(self, group: int) -> None:
        """Have a process group killed if this process dies."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Take a process group that is gone off the list."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        if self._process.stdin:
            with suppress(OSError):  # somebody killed the watchdog: work goes on without it
                self._process.stdin.write(line.encode())

    def close(self) -> None:
        """End the program; groups still listed are killed."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        self._process.wait()


def watch_over(lines: Iterable[str]) -> None:
    """Read `+GROUP` and `-GROUP` lines to their end, then kill the groups that are left."""
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    watch_over(sys.stdin)
