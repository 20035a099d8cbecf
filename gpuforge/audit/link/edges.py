"""The parts of the link graph: NEEDED entries with their provider and route, and the objects that load together."""

from typing import Literal, NamedTuple

from gpuforge.audit.layout import Route
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.model import Preload
from gpuforge.binary.facts import ElfObject

Source = Literal["wheel", "sibling", "package", "system", "driver", "nobody"]
# no search path leads to a library of the wheels or their requirements; only a package for another CUDA major, or one
# that is not required, has it; no package is known to have it; a path leads to a file that the linker does not load
Reason = Literal["no path", "other major", "not required", "unknown", "not loaded"]
# why a declared package need not bring the library: no release that its clauses allow is known to have it, it is only
# called like the library, or pip omits the package
Unproved = Literal["", "release", "name", "python", "extra"]
Key = tuple[str, str]  # wheel, file


class Provider(NamedTuple):
    """What supplies a NEEDED library: the wheel, another wheel, a package, the system or the driver."""

    source: Source
    object: ElfObject | None = None  # for "wheel" and "sibling"
    package: str = ""  # for "package": the declared one, else the likely one
    declared: Declared | None = None
    # if `package` is not declared: a declared one with the library for another CUDA major
    other_major: Declared | None = None
    # the declared package, if its releases for this machine lack the library
    lacking: Declared | None = None
    unproved: Unproved = ""


class Obstacle(NamedTuple):
    """Why the dynamic linker does not load a library that a search path leads to.

    "no library": an earlier file with its name is not a library. "machine": it is one for another machine or ABI, which
    the dynamic linker does not skip. "folder": the search path leads through a folder that not every environment has.
    The others are options of the linker: a program (PIE) instead of a library, `-z nodlopen` of the library, and
    `-z nodefaultlib` of the object that needs it.
    """

    kind: Literal["no library", "machine", "folder", "program", "nodlopen", "nodefaultlib"]
    file: str = ""  # the member that the linker finds
    folder: str = ""  # for "folder": its virtual path


class Edge(NamedTuple):
    """One NEEDED entry, resolved. Without a `route` the linker does not find the library."""

    loader: ElfObject
    needed: str
    provider: Provider
    route: Route | None = None
    preload: Preload | None = None  # the Python file that loads it beforehand
    obstacle: Obstacle | None = None  # without a route
    unfound_from: str = ""  # the file whose import or start loads the loader without a route

    @property
    def reason(self) -> Reason | None:
        """Why the linker does not find the library; None if it does, or if Python code loads the library beforehand."""
        if self.route or self.preload:
            return None
        if self.obstacle:
            return "not loaded"
        if self.provider.object is not None or self.provider.declared is not None:
            return "no path"
        if self.provider.source != "package":
            return "unknown"
        return "other major" if self.provider.other_major else "not required"

    @property
    def sometimes(self) -> bool:
        """Whether the linker finds the library in some load sets of the loader only."""
        return self.route is not None and bool(self.unfound_from)

    @property
    def imported_unseen(self) -> str:
        """The package, not among the given wheels, whose import loads the library; "" without one."""
        if self.route is None or self.route.kind != "import" or self.provider.object is not None:
            return ""
        return self.route.package


class LoadSet(NamedTuple):
    """The objects of the given wheels that one import, or one program, loads into its process."""

    root: ElfObject
    objects: tuple[ElfObject, ...]


def key(binary: ElfObject) -> Key:
    """Return what identifies an object among all wheels."""
    return binary.wheel, binary.file
