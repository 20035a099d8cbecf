"""Run pip and pass on what it prints as it comes: the log shows which file is on its way, and how far it is."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

PROGRESS = "--progress-bar=raw"  # one line for each step: https://pip.pypa.io/en/stable/cli/pip_install/
CRASH = "ERROR: Exception:"
_STEP = re.compile(r"Progress (\d+) of (\d+)\n?")
_PAUSE = 2.0  # seconds between lines about one download


def run(
    argv: Sequence[str], say: Callable[[str], object], env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run pip with `PROGRESS` among its options; return its exit status and its output, without the progress.

    `say` gets each line as it comes.
    """
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True
    )
    assert process.stdout is not None  # noqa: S101  it is a pipe
    lines: list[str] = []
    shown, crashed = time.monotonic(), False
    try:
        for line in process.stdout:
            step = _STEP.fullmatch(line)
            if step is None:
                crashed = crashed or line.startswith(CRASH)
                lines.append(line)
                if not crashed:
                    say(line.rstrip("\n"))
            elif time.monotonic() - shown > _PAUSE:
                shown = time.monotonic()
                say(f"  {int(step[1]) / 1e6:.0f} of {int(step[2]) / 1e6:.0f} MB")
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if crashed:  # of a traceback, the last line has the reason
        say(lines[-1].rstrip("\n"))
    process.stdout.close()
    return process.wait(), "".join(lines)
