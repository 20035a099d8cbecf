"""`python -m PACKAGE._gpuforge compile`: compiles the package's sources on this machine, for use from now on."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ..userbuild import command

SUMMARY = command.SUMMARY
configure = command.configure


def run(options: argparse.Namespace) -> int:
    """Compile for the package of this runtime."""
    home = Path(__file__).resolve().parent.parent
    package = command.Package((__package__ or "").rpartition("._gpuforge")[0], home, os.environ)
    return command.main(
        options,
        package,
        say=lambda line: sys.stdout.write(f"{line}\n"),
        complain=lambda line: sys.stderr.write(f"{line}\n"),
    )
