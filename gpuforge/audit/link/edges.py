"""What the link graph is made of: NEEDED entries with their provider and the way to it, and what loads together."""

from typing import Literal, NamedTuple

from gpuforge.audit.link.declared import Declared
from gpuforge.audit.model import Preload
from gpuforge.audit.route import Route
from gpuforge.binary.facts import ElfObject

Source = Literal["wheel", "sibling", "package", "system", "driver", "nobody"]
# no search path leads to what the wheels give or require; a package has it that is required for another CUDA major, or
# not required; nobody is known to have it; the linker is led to it, and does not load it
Reason = Literal["no path", "other major", "not required", "unknown", "not loaded"]
# why a declared package need not bring the library: no release that its clauses allow is known to have it, or pip omits
# the package
Unproved = Literal["", "release", "python", "extra"]
Key = tuple[str, str]  # wheel, file


class Provider(NamedTuple):
    """Who supplies a NEEDED library."""

    source: Source
    object: ElfObject | None = None  # for "wheel" and "sibling"
    package: str = ""  # for "package": the one that is declared, else the one that would have it
    declared: Declared | None = None
    # of a package that is not declared: what is, and has the library for another CUDA major
    other_major: Declared | None = None
    # the package itself, where its releases for this machine lack the library
    lacking: Declared | None = None
    unproved: Unproved = ""


class Obstacle(NamedTuple):
    """Why the dynamic linker does not load a library for which there is a way.

    "no library": a file that is none has its name, and comes first. "folder": the search path leads through a folder
    that not every environment has. The others are options of the linker: a program (PIE) in place of a library,
    `-z nodlopen` of the library, and `-z nodefaultlib` of what needs it.
    """

    kind: Literal["no library", "folder", "program", "nodlopen", "nodefaultlib"]
    path: str = ""  # the file or the folder


class Edge(NamedTuple):
    """One NEEDED entry, resolved. Without a `route` the linker does not find the library."""

    loader: ElfObject
    needed: str
    provider: Provider
    route: Route | None = None
    preload: Preload | None = None  # the Python file that loads it beforehand
    obstacle: Obstacle | None = None  # without a route
    unfound_from: str = ""  # the file whose import, or start, leads to the loader and to no route

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
        """Whether the linker finds the library in some load sets of the loader, and in others not."""
        return self.route is not None and bool(self.unfound_from)

    @property
    def imported(self) -> str:
        """The package outside the wheels given whose import has loaded the library; "" without such."""
        if self.route is None or self.route.kind != "import" or self.provider.object is not None:
            return ""
        return self.route.entry


class LoadSet(NamedTuple):
    """What one import, or one program, pulls into its process from the wheels given."""

    root: ElfObject
    objects: tuple[ElfObject, ...]


def key(found: ElfObject) -> Key:
    """Return what identifies an object among all wheels."""
    return found.wheel, found.file
