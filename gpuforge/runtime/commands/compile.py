"""`python -m PACKAGE._gpuforge compile`: compile the package's sources here, and use the result from now on."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..userbuild import command

SUMMARY = command.SUMMARY
configure = command.configure


def run(options: argparse.Namespace) -> int:
    """Compile for the package that this runtime lies in."""
    home = Path(__file__).resolve().parent.parent
    package = command.Package((__package__ or "").rpartition("._gpuforge")[0], home, os.environ)
    return command.main(
        options,
        package,
        say=lambda line: sys.stdout.write(f"{line}\n"),
        complain=lambda line: sys.stderr.write(f"{line}\n"),
    )
