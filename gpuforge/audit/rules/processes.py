"""The objects that meet in one process, and the libraries that it loads: two files of a library are two copies."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from gpuforge.audit.findings import Facts, Subject
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.recognise import is_nvidia_library, variant_family
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import libraries, releases, sonames, version

Scope = Literal["import", "wheel", "environment"]


class Process(NamedTuple):
    """Objects that may be in one process, and the scope of the imports that load them.

    "import": one import or one program loads them all. "wheel": all modules of one wheel are imported. "environment":
    all given wheels are imported; `blamed` says which of them the finding belongs to.
    """

    scope: Scope
    wheel: str  # "" for an environment
    root: str  # the file that is imported or started; "" for the wider scopes
    objects: tuple[ElfObject, ...]

    @property
    def across(self) -> bool:
        """Whether several of the given wheels make it."""
        return self.scope == "environment"

    def blamed(self, wheels: Sequence[str]) -> str:
        """Return the wheel that the finding belongs to: in an environment the last of these."""
        return self.wheel or wheels[-1]


@lru_cache(maxsize=1)  # half a dozen rules call it with one graph
def processes(graph: LinkGraph) -> tuple[Process, ...]:
    """Return every process that the wheels can be in, the surest first.

    Only one of several variants for CUDA versions (libx_cuda118.so, libx_cuda126.so) is loaded, programs start their
    own process, and one user may import all modules of a wheel.
    """
    return tuple(_processes(graph))


def _processes(graph: LinkGraph) -> Iterator[Process]:
    joined: dict[str, dict[tuple[str, str], ElfObject]] = {}
    for load_set in graph.load_sets:
        yield Process("import", load_set.root.wheel, load_set.root.file, load_set.objects)
        if not load_set.root.is_program and not variant_family(load_set.root):
            joined.setdefault(load_set.root.wheel, {}).update(
                {(o.wheel, o.file): o for o in load_set.objects}
            )
    for wheel, objects in joined.items():
        yield Process("wheel", wheel, "", tuple(objects.values()))
    if len(joined) > 1 or (joined and any(opened_by_python(graph))):
        everything = {key: found for objects in joined.values() for key, found in objects.items()}
        yield Process("environment", "", "", tuple(everything.values()))


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
            if origin := _origin(edge, name):
                opened = edge.preload is not None or opens(graph, edge)
                library = LoadedLibrary(origin, name, loader.wheel, loader.file, edge.needed, opened)
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


def loaded_cudarts(graph: LinkGraph, objects: Iterable[ElfObject]) -> list[LoadedLibrary]:
    """List the copies of libcudart that these objects load, with `soname` shortened to "libcudart.so.12"."""
    objects_once = list(objects)
    found = loaded_libraries(graph, objects_once, _has_version)
    imported = graph.edges_where(_is_imported_unseen)
    found += [
        i for o in objects_once for edge in imported.get((o.wheel, o.file), ()) for i in _carried(graph, edge)
    ]
    unique: dict[LibraryOrigin, LoadedLibrary] = {}
    for copy in found:
        unique.setdefault(copy.origin, copy._replace(soname=sonames.cut_to_major(copy.soname)))
    return list(unique.values())


def _has_version(soname: str) -> bool:
    return libraries.is_cudart(soname) and bool(sonames.version(soname))


def _is_imported_unseen(edge: Edge) -> bool:
    return bool(edge.imported_unseen)


def _carried(graph: LinkGraph, edge: Edge) -> Iterator[LoadedLibrary]:
    """Yield the libcudart that importing a package (torch) has loaded, unless it is in that package.

    A variant for one CUDA version yields none: Python code chooses it by the version that has been loaded.
    """
    if variant_family(edge.loader):
        return
    importing = graph.declared[edge.loader.wheel].get(edge.imported_unseen)
    if importing and any(map(libraries.is_cudart, importing.carries)):
        return  # its own libcudart is found elsewhere
    for package, known in graph.declared[edge.loader.wheel].items():
        if known.loaded_by == edge.imported_unseen and package in _packages():
            soname = _packages()[package]
            given = next((o for w in graph.wheels if w.project == package for o in w.objects), None)
            origin = LibraryOrigin("wheel", given.file) if given else LibraryOrigin("package", package)
            yield LoadedLibrary(origin, soname, edge.loader.wheel, "", soname, imported=edge.imported_unseen)


def opened_cudarts(
    graph: LinkGraph, objects: Iterable[ElfObject], known: Iterable[LoadedLibrary]
) -> Iterator[LoadedLibrary]:
    """Yield the libcudart that objects open at run time, beside the `known` copies.

    They are objects with GPU code and no runtime, such as JAX's, and those that name one libcudart of an installed
    package. By its plain name it is a known copy of that name, as the dynamic linker reuses it; by a path it is a file.
    """
    objects = tuple(objects)
    names = {copy.requested for copy in known}
    for own in (*own_runtimes(graph, objects), *_named_runtimes(graph, objects)):
        brought = (package for package, soname in _packages().items() if soname == own.soname)
        package = next((p for p in brought if any(p in each for each in graph.declared.values())), "")
        by_path = package and any(preload.opens(own.soname) for preload in graph.wheel(own.wheel).preloads)
        if own.how == "opened" and (package or own.file) and (by_path or own.soname not in names):
            origin = LibraryOrigin("package", package) if package else LibraryOrigin("system", own.soname)
            yield own._replace(origin=origin, opened=bool(by_path))
    for found in opened_by_python(graph):
        if found.opened or found.soname not in names:
            yield found


def opened_by_python(graph: LinkGraph) -> Iterator[LoadedLibrary]:
    """Yield the libcudart that Python files of a wheel without objects open, out of a package that it requires.

    cuda-pathfinder takes one that is loaded under its name; a path is another file.
    """
    for wheel in graph.wheels:
        for package in _packages().keys() & graph.declared[wheel.name].keys():
            origin, soname = LibraryOrigin("package", package), _packages()[package]
            for code in (each for each in wheel.openers if each.opens(soname) and not each.ops):
                again = not code.pathfinder
                yield LoadedLibrary(origin, soname, wheel.name, code.file, soname, again, how="opened")


def _named_runtimes(graph: LinkGraph, objects: Iterable[ElfObject]) -> Iterator[LoadedLibrary]:
    """Yield the only libcudart that an object without GPU code and without a runtime names in its constants."""
    for found in objects:
        named = {name for name in found.mentioned_sonames if libraries.is_cudart(name)}
        own = found.containers or found.has_static_cudart or is_nvidia_library(graph, found)
        if len(named) == 1 and not own and not any(map(libraries.is_cudart, (*found.needed, found.soname))):
            (name,) = named
            yield LoadedLibrary(
                LibraryOrigin("system", ""), name, found.wheel, found.file, name, how="opened"
            )


@cache
def _packages() -> Mapping[str, str]:
    """Return the packages that have a libcudart, each with its SONAME."""
    return {
        each.package: each.soname
        for each in libraries.toolkit_libraries()
        if libraries.is_cudart(each.soname)
    }


def own_runtimes(graph: LinkGraph, objects: Iterable[ElfObject]) -> Iterator[LoadedLibrary]:
    """Yield a libcudart of the code's CUDA major for each object with GPU code whose runtime is not NEEDED.

    An object that gets CUDA's functions from other objects uses their runtime, and is left out unless a libcudart is
    linked into it statically.
    """
    for found in objects:
        if not found.containers or variant_family(found) or is_nvidia_library(graph, found):
            continue
        static = found.has_static_cudart
        named = any(libraries.is_cudart(sonames.plain_name(n)) for n in found.needed)
        if (named or found.undefined("cuda")) and not static:
            continue
        majors = {
            major for c in found.containers for e in c.entries for major in _image_majors(e.toolkit, e.isa)
        }
        soname = _soname(majors.pop()) if len(majors) == 1 else ""
        if soname:
            how: How = "static" if static else "opened"
            origin = LibraryOrigin("wheel", found.file)
            yield LoadedLibrary(origin, soname, found.wheel, found.file, soname, how=how)


@cache
def _image_majors(toolkit: str, isa: str) -> frozenset[int]:
    """Return the CUDA majors of an image: by the toolkit that wrote it, or by its PTX ISA."""
    rows = [(r.ptx, r.version) for r in releases.former()] + [(r.ptx, r.version) for r in releases.releases()]
    versions = [toolkit] if toolkit else [release for ptx, release in rows if isa and ptx == isa]
    return frozenset(map(version.major_of, versions))


@cache
def _soname(major: int) -> str:
    """Return the SONAME of the CUDA runtime of a major; "" if its libraries are not known."""
    known = (e.soname for e in libraries.toolkit_libraries(major))
    return next(filter(libraries.is_cudart, known), "")
