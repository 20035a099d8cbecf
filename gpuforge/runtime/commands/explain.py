"""`python -m PACKAGE._gpuforge explain`: what this machine has, and which kernels are used on it and why."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..explain import (
    SCHEMA,
    as_data,
    as_text,
    facts_of,
    library_as_data,
    library_as_text,
    library_facts_of,
    machine_data,
)
from ..kernellibrary import KernelLibrary, library_names
from ..kernelset import KernelSet, shipped_names
from ..machine import libraries
from ..reason import Reason

SUMMARY = "show which kernels are used on this machine, and why not the others"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "set", nargs="*", help="a kernel set or library of this package (default: all of them)"
    )
    parser.add_argument("--json", action="store_true", help="print data instead of a table")


def run(options: argparse.Namespace) -> int:
    """Print the explanation; 2 when there is no such kernel set."""
    known = [*shipped_names(), *library_names()]
    unknown = [name for name in options.set if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        sys.stderr.write(f"error: no kernel set {', '.join(unknown)} in this package; it has: {there}\n")
        return 2
    wanted = options.set or known
    facts = [facts_of(KernelSet.shipped(name)) for name in shipped_names() if name in wanted]
    own = [library_facts_of(KernelLibrary.shipped(name)) for name in library_names() if name in wanted]
    beside = libraries(os.environ)
    if options.json:
        data = {
            "schema": SCHEMA,
            "machine": machine_data(facts[0].machine) if facts else None,
            "libraries": {
                k: v.as_data() if isinstance(v, Reason) else {"text": v} for k, v in beside.items()
            },
            "sets": [as_data(one) for one in facts],
            "kernel_libraries": [library_as_data(one) for one in own],
        }
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return 0
    lines = [*map(as_text, facts), *map(library_as_text, own)] or ["this package has no kernels"]
    lines += [str(v) if isinstance(v, Reason) else f"{name}: {v}" for name, v in beside.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
