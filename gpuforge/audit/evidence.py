"""The evidence from reading all bytes of a host-only file, as values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

TracePlace = Literal["debug info", ".comment", "section", "symbol", "source"]
PLACES: tuple[TracePlace, ...] = (
    "debug info",
    ".comment",
    "section",
    "symbol",
    "source",
)  # the plainest first


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
