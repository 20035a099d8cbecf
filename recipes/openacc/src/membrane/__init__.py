"""Membranes of single cells in time: the host is plain C++, the mechanisms are a library that users can compile."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from . import _core
from ._gpuforge import KernelLibrary

__all__ = ["Run", "explain", "mechanisms", "simulate"]

_library = KernelLibrary.shipped("mechanisms")  # the object's name in gpuforge.toml; this reads nothing yet


class Run(NamedTuple):
    """The voltages at the end (mV), and each spike as (time in ms, number of the cell)."""

    voltages: list[float]
    spikes: list[tuple[float, int]]


def simulate(cells: int, milliseconds: float, dt: float = 0.025) -> Run:
    """Simulate cells with rising stimuli from rest; raises `_gpuforge.KernelUnavailable` without a library."""
    return Run(*_core.simulate(_table(), cells, round(milliseconds / dt), dt))


def mechanisms() -> list[str]:
    """Return the names of the mechanisms in the library that is used."""
    return list(_core.names(_table()))


def explain() -> str:
    """Say which library of mechanisms is used here, and why."""
    return _library.explain()


def _table() -> int:
    return ctypes.cast(_library.load().mechanisms, ctypes.c_void_p).value or 0
