"""Ring networks in NEURON and CoreNEURON: which library of compiled mechanisms CoreNEURON gets is decided here."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ._gpuforge import KernelLibrary

__all__ = ["explain", "load", "prepare"]

_mechanisms = KernelLibrary.shipped(
    "mechanisms"
)  # the object's name in gpuforge.toml; this reads nothing yet
CHOICE = "CORENEURONLIB"  # where NEURON looks for the library when CoreNEURON first runs


@cache
def load() -> None:
    """Give NEURON itself the mechanisms `km` and `Decay`."""
    from neuron import h  # noqa: PLC0415  it takes a second, and explain() needs none of it

    library = Path(__file__).with_name("libnrnmech.so")
    if not h.nrn_load_dll(str(library)):
        raise ImportError(f"NEURON cannot load {library}")


def prepare() -> str:
    """Choose the library that CoreNEURON will run, and return its file: call it before the first simulation.

    A choice that the environment has made already stays. Raises `_gpuforge.KernelUnavailable` without a library.
    """
    if not os.environ.get(CHOICE):
        os.environ[CHOICE] = _mechanisms.path()
    return os.environ[CHOICE]


def explain() -> str:
    """Say which library of mechanisms is used here, and why."""
    return _mechanisms.explain()
