"""The free-threaded CPython of this machine, for tests of it."""

import pytest

from gpuforge.errors import MissingError
from gpuforge.toolchains import cpython


def free_threaded() -> cpython.Interpreter:
    """Return it; skips where there is none."""
    for minor in ("3.13t", "3.14t", "3.15t"):
        try:
            return cpython.find(minor)
        except MissingError:
            continue
    pytest.skip("no free-threaded CPython on this machine (`uv python install 3.14t`, or image trixie)")
