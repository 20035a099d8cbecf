"""Finds packages that may have libraries without a known provider, and wheels that declare none."""

import posixpath
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from packaging.utils import canonicalize_name

from gpuforge.audit import layout, version_clauses
from gpuforge.audit.link import declared, package_tables
from gpuforge.audit.link.declared import Declared
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.cuda import carriers, libraries, stack
from gpuforge.cuda.suffix import without_suffix
from gpuforge.grouping import grouped

Entry = tuple[str, str, str]  # wheel, file, NEEDED


class Clue(NamedTuple):
    """A clue for the package that has a library.

    "folder": search paths lead to folders of `packages`, which are required. "release": `packages` are required in the
    wheel's own version. "parent": the required package `parent` may bring `packages`, which have it. "environment":
    search paths lead to the environment's lib folder, where a required package may put it. "import": importing one of
    `packages` loads it, and none is required. "toolkit": it is a CUDA library of a version that no package has.
    """

    kind: Literal["folder", "release", "parent", "environment", "import", "toolkit", "none"]
    packages: tuple[str, ...] = ()
    parent: str = ""
    of_compiler: bool = False  # it is a compiler's runtime


class _Searched(NamedTuple):
    """The places where the linker looks for a library in vain."""

    packages: set[str]  # required ones with the names of folders that are not in the wheel
    environment: (
        bool  # the environment's own lib folder, where required packages such as Intel's install theirs
    )


def clues(graph: LinkGraph, edges: Iterable[Edge]) -> dict[Entry, Clue]:
    """Return the clue for each edge without a provider; an object may search for all libraries of its wheel."""

    @cache
    def folders(name: str) -> frozenset[str]:
        members = graph.wheel(name).members
        return frozenset(posixpath.dirname(layout.install_path(member)) for member in members)

    lost = grouped(((edge.loader.wheel, edge.needed), edge) for edge in edges)
    found: dict[Entry, Clue] = {}
    for (wheel, needed), same in lost.items():
        compiler = libraries.compiler_runtime(needed) is not None
        searched = [_searched(graph, edge, folders(wheel)) for edge in same]
        packages = set[str]().union(*(each.packages for each in searched))
        joined = _Searched(packages, any(each.environment for each in searched))
        for edge in same:
            clue = _required(graph, edge, joined) or _other(graph, edge, of_compiler=compiler)
            found[wheel, edge.loader.file, needed] = clue._replace(of_compiler=compiler)
    return found


def _required(graph: LinkGraph, edge: Edge, searched: _Searched) -> Clue | None:
    """Return the clue that points to a required package."""
    if searched.packages:
        return Clue("folder", tuple(sorted(searched.packages)))
    if parts := _released_with(graph, edge):
        return Clue("release", parts)
    carrying = package_tables.carrying(edge.needed)
    # tensorrt brings tensorrt-cu12-libs, or the one of another CUDA
    for parent in graph.declared[edge.loader.wheel]:
        if named := tuple(package for package in carrying if package.startswith(f"{parent}-")):
            return Clue("parent", named, parent)
    return Clue("environment") if searched.environment else None


def _other(graph: LinkGraph, edge: Edge, *, of_compiler: bool) -> Clue:
    known = graph.declared[edge.loader.wheel]
    others = tuple(package for package in package_tables.carrying(edge.needed) if package not in known)
    if others and not of_compiler:
        return Clue("import", others)
    return Clue("toolkit" if package_tables.of_toolkit(edge.needed) else "none")


def _searched(graph: LinkGraph, edge: Edge, own: Collection[str]) -> _Searched:
    """Return the required packages with the name of a folder that the object searches and that is not in the wheel.

    PyQt5 searches `PyQt5/Qt5/lib`, and requires PyQt5-Qt5; `libx` is the folder of libx-cu12. Given packages have been
    searched already.
    """
    users = (user.loader for user in graph.users(edge.loader))  # their RPATHs apply to it, too
    folders = {e.folder for e in layout.search(edge.loader, users)} - {*own}
    parts = [place.path.split("/") for place in map(layout.Folder.of, folders) if place.top]
    empty = {canonicalize_name("-".join(p[:count])) for p in parts for count in range(1, len(p) + 1)}
    known = graph.declared[edge.loader.wheel]
    others = known.keys() - {wheel.project for wheel in graph.wheels} - carriers.nvidia_packages()
    return _Searched(
        {package for package in others if {package, without_suffix(package)} & empty},
        f"{layout.ENVIRONMENT}/lib" in folders
        and any(package_tables.is_in_environment(d.package) and not d.extra for d in known.values()),
    )


def _released_with(graph: LinkGraph, edge: Edge) -> tuple[str, ...]:
    """Return the required packages that are parts of the same release: pinned to the wheel's own version.

    Libraries of a stack that is installed on the machine, such as ROCm, are not parts of a project's release.
    """
    wheel = graph.wheel(edge.loader.wheel)
    if stack.is_of_machine(edge.needed):
        return ()
    if edge.loader.is_program or any(w.project in graph.declared[wheel.name] for w in graph.wheels):
        return ()
    known = graph.declared[wheel.name].values()
    pinned = (d.package for d in known if version_clauses.pins(d.requirement.versions, wheel.version))
    return tuple(package for package in pinned if package not in package_tables.listed())


@lru_cache(maxsize=1)  # three rules call it with one graph
def without_requirements(graph: LinkGraph) -> frozenset[str]:
    """Return the wheels that require nothing but have objects that need libraries of packages, for GF201 to report."""
    bare = {wheel.name for wheel in graph.wheels if not wheel.requires}
    return frozenset(
        e.loader.wheel for e in graph.edges if e.loader.wheel in bare and e.reason == "not required"
    )


def implied_other_major(graph: LinkGraph, edge: Edge) -> Declared | None:
    """Return the package that has the library for another CUDA major, and would come with another needed package."""
    brought = _implied(graph, edge)
    others = sorted(package_tables.other_majors(edge.needed) & brought.keys())
    return brought[others[0]] if others else None


def _implied(graph: LinkGraph, edge: Edge) -> Mapping[str, Declared]:
    """Return the packages that would come with packages whose libraries the object needs, such as torch."""
    packages = {e.provider.package for e in graph.from_object(edge.loader) if e.provider.source == "package"}
    found: dict[str, Declared] = {}
    given = declared.by_project(graph.wheels)
    for package in sorted(packages & package_tables.loading()):
        found |= declared.brought_by(package, given)
    return found
