"""The program `gpuforge`: runs the command, and turns every failure into a message and a status."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from gpuforge.cli import bounded
from gpuforge.cli.terminal import complain, drop_output, say
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError

INTERRUPTED = 130
UNREAD = 141  # a shell's status for a program that SIGPIPE ended
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: a bug of gpuforge


def main() -> None:
    """Run the program and exit with a status of the README's list."""
    try:
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # CI systems cancel with it: treated as Ctrl-C
        status = run(within=bounded.run)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt was already reported
    except KeyboardInterrupt:  # a second one, while `run` reported the first
        status = INTERRUPTED
    sys.exit(status)


def run(arguments: Sequence[str] | None = None, within: bounded.Within | None = None) -> int:
    """Run the program and return its exit status; no exception leaves it. An audit's work is done `within` limits."""
    try:
        from gpuforge.cli import commands

        return commands.call(sys.argv[1:] if arguments is None else arguments, within)
    except KeyboardInterrupt:
        say("interrupted; finished work is kept")
        return INTERRUPTED
    except BrokenPipeError:
        drop_output(1, 2)
        return UNREAD
    except GpuforgeError as error:
        complain(error.diagnostics)
        return error.exit_code
    except OSError as error:
        complain([of_os_error(error)])
        return 3 if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS} else 2
    except Exception:  # noqa: BLE001  the last resort: a fault of ours, told as one
        return _internal()


def of_os_error(error: OSError) -> Diagnostic:
    """Return an error of the operating system with a hint."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    # If an error has two paths, those of a copy, the disk of the second one is full.
    where = (error.filename2 if full else None) or error.filename
    room = "free some space (`df -h` shows which disk is full), or use another disk: "
    room += "--output, GPUFORGE_CACHE_DIR and GPUFORGE_WORK name the folders that are written; finished work is kept"
    hints = {
        errno.ENOSPC: room,
        errno.EDQUOT: room,
        errno.EACCES: "check who may write there",
        errno.EROFS: "choose a folder that can be written",
    }
    message = "the disk is full" if full and not where else f"{where or 'a file'}: {error.strerror or error}"
    return Diagnostic(message, hint=hints.get(error.errno or 0, ""))


def _internal() -> int:
    if os.environ.get("GPUFORGE_DEBUG"):
        import traceback

        traceback.print_exc()
    kind, value, _ = sys.exc_info()
    complain(
        [
            Diagnostic(
                f"gpuforge itself failed: {kind.__name__ if kind else ''}: {value}",
                hint="this is a bug; run again with GPUFORGE_DEBUG=1 and report what it prints",
            )
        ]
    )
    return INTERNAL
