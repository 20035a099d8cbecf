"""Where the program `gpuforge` begins: before anything is loaded that takes time."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the program."""
    gc.disable()  # a run is short and bounded; collecting costs a tenth of a small audit
    from gpuforge.cli import main as program

    program.main()
