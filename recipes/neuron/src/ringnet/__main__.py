"""`python -m ringnet [neuron|core|gpu] [RINGS]`: run rings for 200 ms, and say what was used and what came of it."""

from __future__ import annotations

import sys

from . import explain
from .network import Network


def main(solver: str = "core", rings: str = "4") -> None:
    print(explain())
    spikes = Network(int(rings), 8).run(200, core=solver != "neuron", gpu=solver == "gpu")
    last, cell = spikes[-1]
    print(f"{solver}: {len(spikes)} spikes in {rings} rings, the last at {last:.3f} ms in cell {cell}")


if __name__ == "__main__":
    main(*sys.argv[1:])
