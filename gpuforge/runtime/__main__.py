"""`python -m PACKAGE._gpuforge COMMAND`: what a wheel's users can ask of its kernels."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from .commands import NAMES

UNREAD = 141  # as the shell says of what SIGPIPE has ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code. Without one, print the help."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__.partition(": ")[2])
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in NAMES:
        command = import_module(f".commands.{name}", __package__)
        added = commands.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        command.configure(added)
        added.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        if options.command is None:
            sys.stdout.write(parser.format_help())
            code = 0
        else:
            code = options.run(options)
        sys.stdout.flush()
    except OSError as error:
        # Python would write what is left at its exit, and fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return UNREAD
        place = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"error: {place}{error.strerror or error}\n")
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
