"""Runs pip and passes its output on at once, so that the log shows the current file and its progress."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from gpuforge.toolkits.progress import Progress, Say

PROGRESS = "--progress-bar=raw"  # one line for each step: https://pip.pypa.io/en/stable/cli/pip_install/
CRASH = "ERROR: Exception:"
_STEP = re.compile(r"Progress (\d+) of (\d+)\n?")


def run(argv: Sequence[str], say: Say, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run pip with `PROGRESS` among its options; return its exit status and its output without the progress.

    `say` gets each line as it comes.
    """
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True
    )
    assert process.stdout is not None  # noqa: S101  it is a pipe
    lines: list[str] = []
    progress, crashed = Progress(say), False
    try:
        for line in process.stdout:
            step = _STEP.fullmatch(line)
            if step is None:
                crashed = crashed or line.startswith(CRASH)
                lines.append(line)
                if not crashed:
                    say(line.rstrip("\n"))
            else:
                progress.report(int(step[1]), int(step[2]))
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if crashed:  # the last line of a traceback has the reason
        say(lines[-1].rstrip("\n"))
    process.stdout.close()
    return process.wait(), "".join(lines)
