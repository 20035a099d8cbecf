"""Recognises the libraries of GPU stacks, by file name or SONAME; the table is data/gpu_stack.toml."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from gpuforge.cuda import libraries, sonames
from gpuforge.datafile import load

_ANYBODYS = frozenset({"checkpoint"})  # CUPTI's library, a name that other projects choose, too
_NAME = r"(?:lib)?(.+?)\.so(?:\..*)?"
_OPENED = rb"lib[A-Za-z][\w.+-]{0,60}?\.so(?:\.\d{1,4}){0,4}(?![\w.%])"
_BEFORE = rb"[\w.+-]"  # before "lib": then it is the end of another word


def member(filename: str) -> str | None:
    """Return the name of a library of a GPU stack, as in a manifest's `needs`; None for any other.

    "cudart" of `libcudart.so.12`, "nvomp" of the grafted `libnvomp-fb1a2b9f.so`.
    """
    plain = sonames.plain_name(filename)
    match = re.fullmatch(_NAME, plain)
    if match is None:
        return None
    name = match[1]
    runtimes = libraries.compiler_runtime(plain)
    known = name in _names() or libraries.is_driver(plain) or (runtimes is not None and runtimes.gpu)
    return name if known or _patterns().fullmatch(name) else None


def is_name(text: str) -> bool:
    """Return whether a name in a manifest's `needs` is a library of a GPU stack: "cufft". Case is ignored."""
    folded = text.casefold()
    known = folded in {name.casefold() for name in _names()} or member(f"lib{text}.so") is not None
    return known or re.fullmatch(_patterns().pattern, text, re.IGNORECASE) is not None


def opened(data: bytes) -> frozenset[str]:
    """Return the libraries of GPU stacks whose file names are in some bytes: code may open them by name."""
    matches = re.finditer(_OPENED, data)
    found = {m[0].decode() for m in matches if not re.match(_BEFORE, data[m.start() - 1 : m.start()])}
    return frozenset(name for name in found if member(name))


def names() -> tuple[str, ...]:
    """Return the names that `needs` accepts, without those that only match a pattern, sorted."""
    return tuple(sorted(_names()))


def is_loader(filename: str) -> bool:
    """Return whether a library loads the driver of another stack than CUDA: "libOpenCL.so.1"."""
    return member(filename) in _loaders()


def is_of_machine(filename: str) -> bool:
    """Return whether a library belongs to a stack that is installed on the machine, as ROCm is, and not by pip."""
    name = member(filename)
    return name is not None and _of_machines().fullmatch(name) is not None


@cache
def _of_machines() -> re.Pattern[str]:
    rows = (row for row in load(__file__, "gpu_stack.toml")["stack"] if row.get("of-machine"))
    return re.compile("|".join(name for row in rows for name in row["names"]))


@cache
def _loaders() -> frozenset[str]:
    rows = load(__file__, "gpu_stack.toml")["stack"]
    return frozenset(name for row in rows for name in row.get("loaders", ()))


@cache
def _names() -> frozenset[str]:
    of_stacks = {entry.soname for entry in libraries.toolkit_libraries()} | libraries.drivers()
    of_stacks |= {soname for runtimes in libraries.compilers() if runtimes.gpu for soname in runtimes.sonames}
    matches = (re.fullmatch(_NAME, soname) for soname in of_stacks)
    return frozenset(match[1] for match in matches if match) - _ANYBODYS


@cache
def _patterns() -> re.Pattern[str]:
    return re.compile(
        "|".join(name for row in load(__file__, "gpu_stack.toml")["stack"] for name in row["names"])
    )


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
    return _library_names()[match.lastgroup] if match and match.lastgroup else None


@cache
def _every_stack() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<i{index}>{row['names']})" for index, row in enumerate(_rows())))


@cache
def _library_names() -> dict[str, str]:
    """Return the name of each row's library, as in a manifest's `needs`, by the group of its pattern."""
    names = [row["libraries"][0].removeprefix("lib").removesuffix(".so") for row in _rows()]
    return {f"i{index}": name for index, name in enumerate(names)}


def _rows() -> list[dict[str, Any]]:
    table = load(__file__, "interfaces.toml")
    return [*table["cuda"], *table["other"]]
