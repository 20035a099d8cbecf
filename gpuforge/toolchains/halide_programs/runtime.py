"""Writes the object with Halide's runtime for a target: `runtime.py OUTPUT TARGET`."""

import sys
from pathlib import Path

import halide

output, target = sys.argv[1:]
made = Path(output)
sys.argv[1:] = ["-r", made.stem, "-n", made.stem, "-o", str(made.parent), "-e", "object", f"target={target}"]
halide.main()
