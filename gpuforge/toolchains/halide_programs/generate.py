"""Compiles a Halide generator: `generate.py SOURCE NAME OUTPUT TARGET [ARGUMENT=VALUE…]`.

SOURCE is run as a program, and calls `halide.main()`. The command line is described in Halide's Generator.h.
"""

import runpy
import sys
from pathlib import Path

source, name, output, target, *arguments = sys.argv[1:]
made = Path(output)
sys.argv[1:] = ["-g", name, "-f", name, "-n", made.stem, "-o", str(made.parent), "-e", "object"]
sys.argv += [f"target={target}", *arguments]
sys.path[0] = str(Path(source).parent)
runpy.run_path(source, run_name="__main__")
