"""`python -m membrane`: say which mechanisms are used, and simulate a hundred cells with them."""

from __future__ import annotations

from . import explain, mechanisms, simulate


def main() -> int:
    print(explain())
    run = simulate(cells=100, milliseconds=50)
    print(f"mechanisms: {', '.join(mechanisms())}")
    print(f"100 cells, 50 ms: {len(run.spikes)} spikes, the last cell ends at {run.voltages[-1]:.6f} mV")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
