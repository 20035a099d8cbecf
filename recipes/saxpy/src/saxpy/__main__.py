"""`python -m saxpy`: explain what is used on this machine, compute with it, and compare with the CPU."""

from __future__ import annotations

from array import array

from . import _core, backend, explain, saxpy

N, A = 1_000_000, 2.5


def main() -> int:
    print(explain())
    x = array("f", (0.25 * (i % 1000) for i in range(N)))
    y = array("f", (1.0 + i % 7 for i in range(N)))
    expected = array("f", bytes(4 * N))
    _core.saxpy(A, x, y, expected)
    computed_on = backend()
    right = saxpy(A, x, y) == expected  # these numbers are exact in single precision
    print(f"{N} numbers on {computed_on}: {'right' if right else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
