"""`python -m PACKAGE._gpuforge COMMAND`: commands about the kernels of a wheel."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

# The module of each command, with `SUMMARY`, `configure` and `run`, and why a wheel may not have it.
COMMANDS = {
    "explain": ("explain_command", ""),
    "compile": (
        "userbuild.command",
        "there is nothing to compile: it has no sources for compilers of its users",
    ),
    "cache": (
        "cache_command",
        "there is no kernel cache: it has no sources to compile, and the driver keeps its PTX",
    ),
    "include": (
        "include",
        "it does not have gpuforge_kernels.h: `c-header = true` in [package] of its manifest adds the header",
    ),
}
USAGE = 2
UNREAD = 141  # a shell's status for a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__.partition(": ")[2])
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    words = sys.argv[1:] if arguments is None else arguments
    for name, (module, why_absent) in COMMANDS.items():
        command = _part(module)
        if command is None:
            if name in words[:1]:
                package = (__package__ or "").rpartition(".")[0]
                sys.stderr.write(f"error: {package} does not have the command {name}: {why_absent}\n")
                return USAGE
            continue
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


def _part(module: str) -> Any:
    """Return a module of the runtime, None if this wheel does not have it."""
    try:
        return import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{__package__}.{module}".startswith(error.name):
            raise
        return None


if __name__ == "__main__":
    raise SystemExit(main())
