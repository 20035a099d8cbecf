"""`python -m PACKAGE._gpuforge explain`: shows the machine, the kernels that are used on it, and why."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..explain import PackageFacts, facts_of, library_facts_of, package_as_data, package_as_text
from ..kernellibrary import KernelLibrary, library_names
from ..kernelset import KernelSet, shipped_names
from ..machine import libraries

SUMMARY = "show which kernels are used on this machine, and why not the others"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "set", nargs="*", help="a kernel set or library of this package (default: all of them)"
    )
    parser.add_argument("--json", action="store_true", help="print data instead of a table")


def run(options: argparse.Namespace) -> int:
    """Print the explanation; return 2 if there is no such kernel set or library."""
    known = [*shipped_names(), *library_names()]
    unknown = [name for name in options.set if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        sys.stderr.write(
            f"error: no kernel set or library {', '.join(unknown)} in this package; it has: {there}\n"
        )
        return 2
    sets = options.set or known
    facts = PackageFacts(
        tuple(facts_of(KernelSet.shipped(name)) for name in shipped_names() if name in sets),
        tuple(library_facts_of(KernelLibrary.shipped(name)) for name in library_names() if name in sets),
        libraries(os.environ),
    )
    shown = json.dumps(package_as_data(facts), indent=2) if options.json else package_as_text(facts)
    sys.stdout.write(shown + "\n")
    return 0
