"""`python -m PACKAGE._gpuforge explain`: what this machine has, and which kernels are used on it and why."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..explain import SCHEMA, as_data, as_text, facts_of, machine_data
from ..kernelset import KernelSet, shipped_names
from ..machine import libraries
from ..reason import Reason

SUMMARY = "show which kernels are used on this machine, and why not the others"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("set", nargs="*", help="a kernel set of this package (default: all of them)")
    parser.add_argument("--json", action="store_true", help="print data instead of a table")


def run(options: argparse.Namespace) -> int:
    """Print the explanation; 2 when there is no such kernel set."""
    known = shipped_names()
    unknown = [name for name in options.set if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        sys.stderr.write(f"error: no kernel set {', '.join(unknown)} in this package; it has: {there}\n")
        return 2
    sets = [KernelSet.shipped(name) for name in options.set or known]
    facts = [facts_of(kernels) for kernels in sets]
    beside = libraries(os.environ)
    if options.json:
        data = {
            "schema": SCHEMA,
            "machine": machine_data(facts[0].machine) if facts else None,
            "libraries": {
                k: v.as_data() if isinstance(v, Reason) else {"text": v} for k, v in beside.items()
            },
            "sets": [as_data(one) for one in facts],
        }
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return 0
    lines = [as_text(one) for one in facts] or ["this package has no kernel sets"]
    lines += [str(v) if isinstance(v, Reason) else f"{name}: {v}" for name, v in beside.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
