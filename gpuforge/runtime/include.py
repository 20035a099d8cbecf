"""`python -m PACKAGE._gpuforge include`: prints the folder of `gpuforge_kernels.h`, for programs in C and C++."""

from __future__ import annotations

import argparse
import os
import sys

HEADER = "gpuforge_kernels.h"
SUMMARY = f"print the folder of {HEADER}, for the -I of a C or C++ compiler"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(options: argparse.Namespace) -> int:
    """Print the folder."""
    sys.stdout.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "include") + "\n")
    return 0
