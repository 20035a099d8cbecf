"""Runs a command, and ends its whole process group with it, or when the process that started this is gone.

A program of its own, since no process can act on its own SIGKILL: `python -I -S group.py STATUS COMMAND...`, as the
leader of a session.
Its standard input is a pipe that nobody writes to: its end means that whoever holds the other side is gone, however
that came. STATUS is the descriptor to which the command's exit status is written, or "errno N" where it cannot be run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def _end() -> None:
    os.killpg(0, signal.SIGKILL)


def _end_with_the_caller() -> None:
    os.read(0, 1)
    _end()


def main(status: int, argv: list[str]) -> None:
    """Run the command to its end; this process never returns from here."""
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    try:
        result = str(subprocess.call(argv, stdin=subprocess.DEVNULL))
    except OSError as error:
        result = f"errno {error.errno}"
    os.write(status, result.encode())
    _end()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
