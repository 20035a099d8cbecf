"""Removes the containers of a process that has ended: a separate program, which outlives it.

A container does not end with the process that started it. The end of this program's standard input shows that the
process has ended, also by SIGKILL.
"""

import subprocess
import sys
import time
from contextlib import closing, suppress

from gpuforge.containers.container import Containers, clear_leftovers
from gpuforge.containers.engine import connect
from gpuforge.errors import GpuforgeError

_TRIES_S = (0, 1, 2, 5, 10)  # the process's number counts as alive until its parent has reaped it


def start() -> subprocess.Popen[bytes]:
    """Start the program for this process; it ends when the returned pipe is closed."""
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def main() -> None:
    """Wait for the end of standard input, then remove the containers that are left."""
    sys.stdin.buffer.read()
    for seconds in _TRIES_S:
        time.sleep(seconds)
        with suppress(GpuforgeError, OSError), closing(connect()) as client:
            clear_leftovers(Containers(client))


if __name__ == "__main__":
    main()
