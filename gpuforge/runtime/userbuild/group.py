"""Runs a command, and ends its whole process group with it, or when the process that started this is gone.

It is a separate program, as no process can handle its own SIGKILL: `python -I -S group.py STATUS COMMAND...`, as the
leader of a session. Nothing is written to its standard input, a pipe: its end means that the process at the other side
is gone. STATUS is the descriptor to which JSON is written: {"status": N}, the exit status of the command, or {"errno":
N} if it cannot be run.
"""

from __future__ import annotations

import json
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
    """Run the command to its end; it never returns."""
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    try:
        result = {"status": subprocess.call(argv, stdin=subprocess.DEVNULL)}
    except OSError as error:
        result = {"errno": error.errno or 0}
    os.write(status, json.dumps(result).encode())
    _end()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
