"""The way by which the dynamic linker finds a library."""

from typing import Literal, NamedTuple

SearchKind = Literal["RPATH", "RUNPATH"]


class Route(NamedTuple):
    """The way by which the dynamic linker finds a library."""

    kind: SearchKind | Literal["import", "loaded", "system", "driver"]
    entry: str = ""  # of a search path
    via: str = ""  # the object with the RPATH, if not the loader itself
    package: str = ""  # the package that has to be imported before, as its import loads the library
    loaded_by: str = ""  # the object that has loaded it before; "" if it is the module that is imported

    def __str__(self) -> str:
        """Write it as linkers and tools do: "RUNPATH $ORIGIN/../x", "RPATH $ORIGIN of libx.so", "import torch"."""
        match self.kind:
            case "loaded":
                return f"loaded before it by {self.loaded_by}" if self.loaded_by else "loaded before it"
            case "import":
                return f"import {self.package}"
            case "system" | "driver":
                return f"the {self.kind}"
        return f"{self.kind} {self.entry}" + (f" of {self.via}" if self.via else "")

    @property
    def is_path(self) -> bool:
        """Whether a search path of an object leads to the library."""
        return self.kind in {"RPATH", "RUNPATH"}


def by_import(package: str) -> Route | None:
    """Return the route to a library that was loaded by importing a package; None without a package."""
    return Route("import", package=package) if package else None
