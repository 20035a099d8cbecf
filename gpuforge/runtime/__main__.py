"""`python -m PACKAGE._gpuforge COMMAND`: commands about the kernels of a wheel."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from .commands import COMMANDS

USAGE = 2
UNREAD = 141  # a shell's status for a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code. Without one, print the help."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__.partition(": ")[2])
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    words = sys.argv[1:] if arguments is None else arguments
    for name, why_absent in COMMANDS.items():
        if find_spec(f".commands.{name}", __package__) is None:
            if name in words[:1]:
                package = (__package__ or "").rpartition(".")[0]
                sys.stderr.write(f"error: {package} does not have the command {name}: {why_absent}\n")
                return USAGE
            continue
        command = import_module(f".commands.{name}", __package__)
        added = commands.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        command.configure(added)
        added.set_defaults(run=command.run)
    options = parser.parse_args(words)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # a path may have characters that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if options.command is None:
            sys.stdout.write(parser.format_help())
            code = 0
        else:
            code = options.run(options)
        sys.stdout.flush()
    except OSError as error:
        # At its exit, Python would write the rest, and fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return UNREAD
        place = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"error: {place}{error.strerror or error}\n")
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(main())
