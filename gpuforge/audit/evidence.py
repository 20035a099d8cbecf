"""The evidence from reading all bytes of a host-only file, as values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuforge.audit.model import WheelFacts
from gpuforge.runtime.layout import HOME

if TYPE_CHECKING:
    from gpuforge.audit.link.graph import LinkGraph
    from gpuforge.expectation import HostOnly


TracePlace = Literal["debug info", ".comment", "section", "symbol", "source"]
# the plainest first
PLACES: tuple[TracePlace, ...] = ("debug info", ".comment", "section", "symbol", "source")


class Mark(NamedTuple):
    """A trace of a GPU compiler in an object."""

    compiler: str  # its kind in `host/data/gpu_traces.toml`
    place: TracePlace
    text: str  # the name of the section or symbol, the line, "NVC++ 22.1-0"


GapKind = Literal[
    "not read",  # the file could not be read
    "damaged",
    "members",  # more members than the audit reads
    "depth",  # an archive in too many others
    "LLVM bitcode",
    "GCC bytecode",
    "macOS",
    "AIX",
    "Windows",
    "machine",  # not a CPU that wheels are made for
    "type",  # an unknown type of ELF file
    "sections",  # a relocatable object without sections
    "compiler",  # nothing in it names its compiler
]


class Gap(NamedTuple):
    """The reason why an object, or a file without objects, proves nothing."""

    kind: GapKind
    fact: str | int = ""  # the error; the number of the machine, of the type, of members or archives


class EmbeddedCode(NamedTuple):
    """Code for GPUs in an object: its kind in `host/data/gpu_traces.toml`, and the architectures if it is a fatbin."""

    kind: str
    archs: tuple[str, ...] = ()


class ObjectEvidence(NamedTuple):
    """One object that was read: a file, or a member of an archive."""

    name: str = ""  # of the member; "" for the file itself
    counted: bool = True  # it is an object: program, library or relocatable; not some other file
    code: tuple[EmbeddedCode, ...] = ()
    marks: tuple[Mark, ...] = ()
    needs: tuple[str, ...] = ()  # the libraries in its NEEDED entries
    # undefined symbols of a GPU stack's interfaces -> the library: "cudaMalloc" -> "cudart"
    undefined: Mapping[str, str] = MappingProxyType({})
    defined: frozenset[str] = frozenset()  # the symbols of such interfaces that it defines
    opens: frozenset[str] = frozenset()  # libraries of a GPU stack that are named in its strings
    unproved: Gap | None = None  # None if it was read completely


class Evidence(NamedTuple):
    """The evidence in one file of a wheel."""

    file: str
    parts: tuple[ObjectEvidence, ...]
    archive: bool = False

    @property
    def objects(self) -> int:
        """How many objects were read: 1, or the number of an archive's members."""
        return sum(part.counted for part in self.parts)


def matches(pattern: str, file: str) -> bool:
    """Match a file of a wheel against a pattern, in which `**` crosses folders, and `*` and `?` do not."""
    regex = ""
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        match part:
            case "**/":
                regex += "(?:.*/)?"
            case "**":
                regex += ".*"
            case "*":
                regex += "[^/]*"
            case "?":
                regex += "[^/]"
            case _ if part.startswith("[") and len(part) > 1:
                regex += "[" + part[1:-1].replace("!", "^", 1) + "]" if part[1] == "!" else part
            case _:
                regex += re.escape(part)
    return re.fullmatch(regex, file) is not None


def files_of(patterns: Sequence[str], wheel: WheelFacts) -> set[str]:
    """Return the files of a wheel that match the patterns, except those of kernel sets."""
    return {
        member
        for member in wheel.members
        if f"/{HOME}/" not in f"/{member}" and any(matches(p, member) for p in patterns)
    }


def host_only_files(graph: LinkGraph) -> Iterator[tuple[WheelFacts, HostOnly, str]]:
    """Yield each file that a manifest calls host-only, with its wheel and its object."""
    for wheel in graph.wheels:
        expectation = graph.expectation_of(wheel)
        for promised in expectation.host_only if expectation else ():
            for file in sorted(files_of(promised.patterns, wheel)):
                yield wheel, promised, file
