"""Finds the traces of GPU compilers in objects, by the patterns in `data/gpu_traces.toml`."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from gpuforge.audit.evidence import EmbeddedCode, Mark, TracePlace
from gpuforge.binary import fatbin, ptx
from gpuforge.binary.elf.object_file import ObjectFile
from gpuforge.binary.elf.symbols import Symbol
from gpuforge.datafile import load

_LINKERS = ("Linker: ", "mold ", "GNU gold ")  # lines of .comment that name no compiler
_FATBIN = "fatbin"
_PTX = "PTX"
_CHUNK = 8 << 20  # bytes of a file that are searched for GPU code at once


class _Names(NamedTuple):
    """The patterns of one kind for all compilers, joined, and the compiler of each."""

    pattern: re.Pattern[str]
    compilers: tuple[str, ...]

    def compiler(self, name: str) -> str | None:
        """Return the compiler that leaves this name."""
        return _compiler_matched(self.pattern.fullmatch(name), self.compilers)

    def compiler_in(self, line: str) -> str | None:
        """Return the compiler that writes this line."""
        return _compiler_matched(self.pattern.search(line), self.compilers)


def machine(number: int) -> str | None:
    """Return the name of a CPU by its e_machine; None if it is not a CPU."""
    found: str | None = _loaded()["machines"].get(str(number))
    return found


def code(parts: Iterable[bytes]) -> Iterator[EmbeddedCode]:
    """Yield the GPU code in a file's bytes, and in those of its sections that were compressed."""
    for data in parts:
        for kind, patterns in _code():
            if ptx.occurs(data) if kind == _PTX else any(pattern.search(data) for pattern in patterns):
                yield EmbeddedCode(kind, _architectures(data) if kind == _FATBIN else ())


def name_of_code(kind: str) -> str:
    """Name a kind of GPU code as reports do: "SPIR-V"."""
    return next(str(row["name"]) for row in _loaded()["code"] if row["kind"] == kind)


def name_of_compiler(kind: str) -> str:
    """Name a GPU compiler as reports do: "a CUDA compiler"."""
    return next(str(row["name"]) for row in _loaded()["compiler"] if row["kind"] == kind)


def marks(binary: ObjectFile) -> Iterator[Mark]:
    """Yield everything that shows that GPU compilers took part in an object."""
    for section in binary.sections:
        if compiler := _names("sections").compiler(section.name):
            yield Mark(compiler, "section", section.name)
    for symbol in binary.symbols:
        yield from _of_symbol(symbol._replace(name=symbol.name.partition("@")[0]))
    for line in binary.comments:
        if compiler := _names("comments").compiler_in(line):
            yield Mark(compiler, ".comment", line)
    for text in binary.debug():
        for match in _producers().finditer(text):
            if compiler := _compiler_matched(match, _names("producers").compilers):
                yield Mark(compiler, "debug info", match[0].decode("utf-8", "replace"))


def _of_symbol(symbol: Symbol) -> Iterator[Mark]:
    place: TracePlace = "source" if symbol.file else "symbol"
    kinds = ("sources",) if symbol.file else ("symbols",) if symbol.defined else ("symbols", "wants")
    for kind in kinds:
        if compiler := _names(kind).compiler(symbol.name):
            yield Mark(compiler, place, symbol.name)


def names_its_compiler(binary: ObjectFile) -> bool:
    """Return whether an object names its compiler, GPU compiler or not."""
    if any(not line.startswith(_LINKERS) for line in binary.comments):
        return True
    if any(symbol.file and _host_sources().fullmatch(symbol.name) for symbol in binary.symbols):
        return True
    return any(_host_producers().search(text) for text in binary.debug())


def is_assembly(binary: ObjectFile) -> bool:
    """Return whether an object was assembled by hand: compilers write unwinding frames, or their name."""
    unwound = any(s.name in {".eh_frame", ".debug_frame", ".ARM.exidx"} for s in binary.sections)
    return not unwound and bool(binary.symbols)


def interface_symbols(symbols: Iterable[Symbol]) -> Iterator[Symbol]:
    """Yield the public symbols, defined and undefined, without weak ones, by their plain names."""
    for symbol in symbols:
        if not (symbol.local or symbol.weak or symbol.file):
            yield symbol._replace(name=symbol.name.partition("@")[0])


def _architectures(data: bytes) -> tuple[str, ...]:
    """Return the architectures in a file's fatbin containers, sorted: "compute_90", "sm_80"."""
    scanner = fatbin.Scanner(len(data))
    for offset in range(0, len(data), _CHUNK):
        scanner.feed(offset, data[offset : offset + _CHUNK])
    scanner.finish()
    return tuple(sorted({entry.target for container in scanner.containers for entry in container.entries}))


@cache
def _loaded() -> dict[str, Any]:
    return load(__file__, "gpu_traces.toml")


@cache
def _names(kind: str) -> _Names:
    rows = [(row["kind"], row[kind]) for row in _loaded()["compiler"] if row.get(kind)]
    joined = "|".join(f"(?P<i{index}>{'|'.join(patterns)})" for index, (_, patterns) in enumerate(rows))
    return _Names(re.compile(joined), tuple(compiler for compiler, _ in rows))


@cache
def _producers() -> re.Pattern[bytes]:
    return re.compile(_names("producers").pattern.pattern.encode())


@cache
def _code() -> tuple[tuple[str, tuple[re.Pattern[bytes], ...]], ...]:
    return tuple(
        (row["kind"], tuple(re.compile(pattern.encode(), re.DOTALL) for pattern in row["patterns"]))
        for row in _loaded()["code"]
    )


@cache
def _host_sources() -> re.Pattern[str]:
    return re.compile("|".join(p for row in _loaded()["host"] for p in row.get("sources", ())))


@cache
def _host_producers() -> re.Pattern[bytes]:
    return re.compile("|".join(p for row in _loaded()["host"] for p in row["producers"]).encode())


def _compiler_matched(match: re.Match[str] | re.Match[bytes] | None, names: tuple[str, ...]) -> str | None:
    """Return the compiler whose named group matched; the groups inside of it are unnamed."""
    if match is None:
        return None
    return next(names[int(group[1:])] for group, text in match.groupdict().items() if text is not None)
