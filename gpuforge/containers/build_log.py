"""The log of the build of an image: all output goes to a file, the steps also to the terminal."""

from __future__ import annotations

import re
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # Docker writes the output to standard error in red
TAIL = 12  # lines of a failure that are shown


class Log:
    """A log file in `path`; `show` gets a line for each step."""

    def __init__(self, path: Path, show: Callable[[str], object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._show = show
        self._stream = path.open("w", encoding="utf-8", errors="replace", buffering=1)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def step(self, text: str) -> None:
        """Begin a step, and a new tail."""
        self.tail.clear()
        self._show(text)
        self._stream.write(f"== {text}\n")

    def write(self, line: str) -> None:
        """Add a line."""
        line = _COLOUR.sub("", line).rstrip()
        if line:
            self.tail.append(line)
            self._stream.write(f"{line}\n")

    def last(self) -> str:
        """Return the last line, or "no output"."""
        return self.tail[-1] if self.tail else "no output"

    def run(self, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a command to its end, with its output in the log; return its status and its output.

        An interrupt ends the command.
        """
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environ,
            start_new_session=True,  # Ctrl-C is passed on by gpuforge
        ) as process:
            lines = []
            try:
                for line in process.stdout or ():
                    self.write(line)
                    lines.append(line)
                return process.wait(), "".join(lines)
            except BaseException:
                process.kill()
                raise
