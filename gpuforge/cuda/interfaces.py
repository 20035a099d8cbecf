"""Finds the library that defines a C function of a GPU stack, by its name; the table is data/interfaces.toml."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from gpuforge.datafile import load

# Every CUDA name in the table contains one of these, which are faster to search for.
BEGINNINGS = (b"cu", b"nvrtc", b"nvJitLink", b"nvml", b"nccl", b"nvjpeg")


@cache
def cuda_pattern() -> bytes:
    """Return a pattern for the name of any function of CUDA, up to the NUL that ends it."""
    names = "|".join(f"(?:{row['names']})" for row in load(__file__, "interfaces.toml")["cuda"])
    return f"(?:{names})(?=\\0)".encode()


@cache
def definers(symbol: str) -> Sequence[str]:
    """Return the libraries of CUDA that define a function, without versions, the one to link with first; else ()."""
    rows = load(__file__, "interfaces.toml")["cuda"]
    return next((tuple(row["libraries"]) for row in rows if re.fullmatch(row["names"], symbol)), ())


@cache
def is_known(library: str) -> bool:
    """Return whether the functions of a library of CUDA are known: of "libcuda.so", without a version."""
    return any(library in row["libraries"] for row in load(__file__, "interfaces.toml")["cuda"])


def library_of(symbol: str) -> str | None:
    """Return the library of any GPU stack that a symbol belongs to: "cublas" for `cublasCreate_v2`; else None.

    `__cudaRegisterFatBinary` and others are calls that nvcc inserts, a trace of GPU code and not of a library's use.
    """
    match = None if symbol.startswith("__cuda") else _every_stack().fullmatch(symbol)
    return _libraries()[match.lastgroup] if match and match.lastgroup else None


@cache
def _every_stack() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<i{index}>{row['names']})" for index, row in enumerate(_rows())))


@cache
def _libraries() -> dict[str, str]:
    """Return the name of each row's library, as in a manifest's `needs`, by the group of its pattern."""
    names = [row["libraries"][0].removeprefix("lib").removesuffix(".so") for row in _rows()]
    return {f"i{index}": name for index, name in enumerate(names)}


def _rows() -> list[dict[str, Any]]:
    table = load(__file__, "interfaces.toml")
    return [*table["cuda"], *table["other"]]
