"""Inputs made to cost time or memory, to end the audit, or to steer what reads its output: each small, none sound.

`ATTACKS` has a function for each, which writes it into a folder and returns what to pass to `gpuforge audit`.
"""

from hostile import archives, device, graphs, inputs, metadata, names, objects, sources
from hostile.attack import ATTACKS

__all__ = ["ATTACKS", "archives", "device", "graphs", "inputs", "metadata", "names", "objects", "sources"]
