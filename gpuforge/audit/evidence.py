"""What was found by reading a host-only file completely. Data only."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Place = Literal["debug info", ".comment", "section", "symbol", "source"]
PLACES: tuple[Place, ...] = ("debug info", ".comment", "section", "symbol", "source")  # the plainest first


class Mark(NamedTuple):
    """Something in an object that GPU compilers leave."""

    compiler: str
    place: Place
    text: str  # the name of the section or symbol, the line, "NVC++ 22.1-0"


class Part(NamedTuple):
    """One object that was read: a file, or a member of an archive."""

    name: str = ""  # of the member; "" for the file itself
    counted: bool = True  # it is an object: program, library or relocatable; not some other file
    code: tuple[str, ...] = ()  # the kinds of GPU code in it: "PTX text", "GPU code for sm_80"
    marks: tuple[Mark, ...] = ()
    needs: tuple[str, ...] = ()  # the libraries that it NEEDs
    # undefined symbols of a GPU stack's interfaces -> the library: "cudaMalloc" -> "cudart"
    undefined: Mapping[str, str] = MappingProxyType({})
    defined: frozenset[str] = frozenset()  # the symbols of such interfaces that it defines
    opens: frozenset[str] = frozenset()  # libraries of a GPU stack that its strings name
    unproved: str = ""  # why nothing can be proved of it; "" where it was read completely


class Evidence(NamedTuple):
    """All that was found in one file of a wheel."""

    file: str
    parts: tuple[Part, ...]
    archive: bool = False

    @property
    def objects(self) -> int:
        """How many objects were read: 1, or the number of an archive's members."""
        return sum(part.counted for part in self.parts)
