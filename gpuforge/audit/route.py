"""How the dynamic linker finds a library, as a value."""

from typing import Literal, NamedTuple

SearchKind = Literal["RPATH", "RUNPATH"]


class Route(NamedTuple):
    """How the dynamic linker finds a library."""

    kind: SearchKind | Literal["import", "loaded", "system", "driver"]
    entry: str = ""  # the entry of RPATH or RUNPATH; the package whose import has loaded it
    via: str = (
        ""  # the object whose RPATH it is, if not the loader's own; the object that has loaded it before
    )

    @property
    def is_path(self) -> bool:
        """Whether a search path of an object leads to the library."""
        return self.kind in {"RPATH", "RUNPATH"}

    @property
    def imported(self) -> str:
        """The package that has to be imported before; "" for none."""
        return "" if self.is_path else self.entry


def imported(package: str) -> Route | None:
    """Return the way of a library that importing a package has loaded; None for no package."""
    return Route("import", package) if package else None
