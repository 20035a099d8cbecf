"""A kernel of a compiled module: its symbol, its name in the source, and its parameters."""

from typing import NamedTuple


class Parameter(NamedTuple):
    """A parameter: its type in C++, "const float *", or "" if the symbol does not tell it; its size in bytes."""

    type: str
    size: int


class Kernel(NamedTuple):
    """A kernel: "_Z5scalePfy", "scale". With C linkage both are the same, and its parameters have no type."""

    symbol: str
    name: str
    parameters: tuple[Parameter, ...]
