"""`python -m PACKAGE._gpuforge COMMAND`: what a wheel's users can ask of its kernels."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module

from .commands import NAMES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__.partition(": ")[2])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in NAMES:
        command = import_module(f".commands.{name}", __package__)
        added = commands.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        command.configure(added)
        added.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
