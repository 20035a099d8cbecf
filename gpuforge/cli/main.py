"""The program `gpuforge`: calls what the arguments ask for, and turns every failure into a message and a status."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuforge.cli.terminal import complain, drop_output, say
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError

_COUNT = re.compile(r"[1-9][0-9]{0,3}")
INTERRUPTED = 130
UNREAD = 141  # as the shell says of what SIGPIPE has ended
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: gpuforge's own fault


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with the status that the README lists."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as CI systems cancel: what Ctrl-C does
    status = run(arguments)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what ends now has nobody left to tell of an interrupt
    gc.freeze()  # or the interpreter looks through everything once more before it ends
    sys.exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; no exception leaves it."""
    try:
        return _call(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        say("interrupted; what was finished is kept")
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


def _call(arguments: list[str]) -> int:
    jobs: int | None = None
    match arguments:
        case ["audit", "--jobs", count, *wheels] if _COUNT.fullmatch(count):
            jobs = int(count)
        case ["audit", *wheels]:
            pass
        case _:
            wheels = []
    if wheels and not any(wheel.startswith("-") or not wheel for wheel in wheels):
        from gpuforge.cli import audit_run

        # there is nothing more to parse, and loading click takes as long as reading a small wheel
        return audit_run.run(audit_run.Options(tuple(map(Path, wheels)), jobs=jobs))
    from gpuforge.cli import commands

    return commands.call(arguments)


def of_os_error(error: OSError) -> Diagnostic:
    """Say what the machine refused, and what to do about it."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    # Of two paths, a copy's source and target, the second is where there is no room.
    where = (error.filename2 if full else None) or error.filename
    room = "free some space (`df -h` shows which disk is full), or take another disk: "
    room += "--output, GPUFORGE_CACHE_DIR and GPUFORGE_WORK name what is written; what is finished is kept"
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
