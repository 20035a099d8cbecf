"""The libraries that a process loads: two files of one library in different places are two copies in memory."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from gpuforge.audit.findings import Facts, Subject
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import sonames


class LibraryOrigin(NamedTuple):
    """The origin of a loaded library."""

    source: Literal["wheel", "package", "system"]
    name: str  # the file in its wheel, the package, or the SONAME


How = Literal["linked", "static", "opened"]  # by NEEDED, into the object itself, by dlopen


class LoadedLibrary(NamedTuple):
    """A library as it would be mapped into a process."""

    origin: LibraryOrigin
    soname: str  # the plain one, not mangled
    wheel: str  # of the object that needs it
    loader: str  # the file that needs it; "" if an import has loaded it
    requested: str = ""  # the name in NEEDED
    opened: bool = False  # Python code of that wheel names it among the libraries that it opens
    imported: str = ""  # the package whose import has loaded it
    how: How = "linked"

    @property
    def file(self) -> str:
        """The file in its wheel; "" for a library of a package or of the system."""
        return self.origin.name if self.origin.source == "wheel" else ""

    def subject(self, item: str = "", detail: str = "", facts: Facts = ()) -> Subject:
        """Return the subject of a finding about it."""
        provider = {"wheel": "", "package": self.origin.name, "system": "the system"}[self.origin.source]
        library = self.file or self.soname
        return Subject(
            library=library,
            item=item,
            provider=provider,
            detail=detail,
            facts=facts,
            kind=self.origin.source if provider else "",
            about=(provider,) if provider else (),
            loaded_by=self.loaders,
            imported_by=self.importers,
            wheel=self.wheel,
        )

    @property
    def loaders(self) -> tuple[str, ...]:
        """The file that needs it, for a `Subject`."""
        return (self.loader,) if self.loader else ()

    @property
    def importers(self) -> tuple[str, ...]:
        """The package whose import has loaded it, for a `Subject`."""
        return (self.imported,) if self.imported else ()


def loaded_libraries(
    graph: LinkGraph, objects: Iterable[ElfObject], selects: Callable[[str], bool]
) -> list[LoadedLibrary]:
    """List the libraries that these objects load and whose plain SONAME `selects`, a module-level function, accepts.

    Libraries with one plain name in several places may become one copy: see `loads_only_one`.
    """
    found: dict[str | LibraryOrigin, LoadedLibrary] = {}
    edges = graph.edges_where(_needs(selects))
    for loader in objects if edges else ():
        for edge in edges.get((loader.wheel, loader.file), ()):
            name = _plain(edge.needed)
            if library := _loaded(graph, edge, name):
                key = library.origin if name == edge.needed else edge.needed
                first = found.setdefault(key, library)
                found[key] = first._replace(opened=first.opened or library.opened)
    return list(_files(found.values()))


@cache
def _needs(selects: Callable[[str], bool]) -> Callable[[Edge], bool]:
    return lambda edge: selects(_plain(edge.needed))


def _files(libraries: Iterable[LoadedLibrary]) -> Iterator[LoadedLibrary]:
    """Yield libraries without second names of a system's file: libx.so.1.0 is libx.so.1.

    One name is a link to the other, and the linker recognises a file by its inode (glibc, elf/dl-load.c).
    """
    loaded = list(libraries)
    system = [library.requested for library in loaded if library.origin.source == "system"]
    for library in loaded:
        of_system = library.origin.source == "system"
        if not (of_system and any(library.requested.startswith(f"{name}.") for name in system)):
            yield library


_plain = cache(sonames.plain_name)


def _loaded(graph: LinkGraph, edge: Edge, soname: str) -> LoadedLibrary | None:
    origin = _origin(edge, soname)
    if origin is None:
        return None
    opened = edge.preload is not None or opens(graph, edge)
    return LoadedLibrary(origin, soname, edge.loader.wheel, edge.loader.file, edge.needed, opened)


def _origin(edge: Edge, soname: str) -> LibraryOrigin | None:
    """Return where the library comes from; None if nothing loads it."""
    target = edge.provider.object
    if target is not None:
        return LibraryOrigin("wheel", target.file) if edge.route or edge.preload else None
    if edge.provider.source == "package":
        known = edge.provider.declared is not None or edge.preload is not None
        return LibraryOrigin("package", edge.provider.package) if known else None
    return LibraryOrigin("system", soname)


def opens(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether Python code of a wheel names a library among those that it opens, as by their paths."""
    return any(preload.opens(edge.needed) for preload in graph.wheel(edge.loader.wheel).preloads)


def loads_only_one(libraries: Iterable[LoadedLibrary]) -> bool:
    """Return whether a process gets only one of these libraries, the one that is requested first.

    The linker reuses a library that it has loaded under a NEEDED name, from any place (glibc, elf/dl-load.c,
    _dl_map_object). A library that is opened by a path is another copy.
    """
    loaded = list(libraries)
    return len({i.requested for i in loaded}) == 1 and not any(i.opened for i in loaded)


SEVERAL_PLACES = "Libraries with the same name are in several places."
FIRST_WINS = (
    "The dynamic linker loads only the one that is needed first. Code that opens another by its path loads a second "
    "copy."
)
