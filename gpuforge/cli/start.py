"""Where the program `gpuforge` begins: before anything is loaded that takes time."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the program."""
    gc.disable()  # a run is short and bounded; collecting costs a tenth of a small audit
    try:
        if sys.argv[1:2] == ["audit"]:
            from gpuforge.audit import ahead

            ahead.begin(sys.argv[2:])
        from gpuforge.cli import main as program

        program.main()
    except KeyboardInterrupt:  # before the program could say so, or again while it did
        sys.exit(130)
