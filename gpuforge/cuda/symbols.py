"""Whose a C function of CUDA is: which library defines it, by its name; the data is in data/symbols.toml."""

import re
from collections.abc import Sequence
from functools import cache

from gpuforge.datafile import load

# every name in the table has one of these in it, which is quicker to look for
BEGINNINGS = (b"cu", b"nvrtc", b"nvJitLink", b"nvml", b"nccl", b"nvjpeg")


@cache
def pattern() -> bytes:
    """Return what matches any name of the table, up to the NUL that ends it."""
    names = "|".join(f"(?:{row['names']})" for row in load(__file__, "symbols.toml")["library"])
    return f"(?:{names})(?=\\0)".encode()


@cache
def definers(symbol: str) -> Sequence[str]:
    """Return the libraries that define a function, without their versions, the one to link with first; else ()."""
    rows = load(__file__, "symbols.toml")["library"]
    return next((tuple(row["libraries"]) for row in rows if re.fullmatch(row["names"], symbol)), ())
