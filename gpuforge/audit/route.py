"""The way by which the dynamic linker finds a library."""

from typing import Literal, NamedTuple

SearchKind = Literal["RPATH", "RUNPATH"]


class Route(NamedTuple):
    """The way by which the dynamic linker finds a library."""

    kind: SearchKind | Literal["import", "loaded", "system", "driver"]
    entry: str = ""  # the entry of RPATH or RUNPATH, or the package whose import has loaded it
    # the object with the RPATH, if not the loader itself, or the object that has loaded it before
    via: str = ""

    @property
    def is_path(self) -> bool:
        """Whether a search path of an object leads to the library."""
        return self.kind in {"RPATH", "RUNPATH"}

    @property
    def imported(self) -> str:
        """The package that has to be imported before, or ""."""
        return "" if self.is_path else self.entry


def imported(package: str) -> Route | None:
    """Return the route to a library that was loaded by importing a package; None without a package."""
    return Route("import", package) if package else None
