"""Recognises the libraries of GPU stacks, by file name or SONAME; the table is data/gpu_stack.toml."""

import re
from functools import cache

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
    known = (
        name in _names()
        or libraries.is_driver(plain)
        or (runtimes is not None and runtimes.gpu)
        or _patterns().fullmatch(name) is not None
    )
    return name if known else None


def is_name(text: str) -> bool:
    """Return whether a name in a manifest's `needs` is a library of a GPU stack: "cufft". Case is ignored."""
    folded = text.casefold()
    return folded in {name.casefold() for name in _names()} or member(f"lib{text}.so") is not None


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
    return frozenset(
        name for row in load(__file__, "gpu_stack.toml")["stack"] for name in row.get("loaders", ())
    )


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
