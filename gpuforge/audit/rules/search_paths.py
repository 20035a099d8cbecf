"""GF3xx: RPATH and RUNPATH, and the paths in build files."""

import posixpath
from collections.abc import Iterator
from itertools import dropwhile, islice, takewhile

from gpuforge.audit import layout
from gpuforge.audit.embedded import Recipe
from gpuforge.audit.findings import Finding, Subject, facts_of
from gpuforge.audit.layout import Route
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import PACKAGES, WheelFacts
from gpuforge.audit.rules import commands
from gpuforge.audit.rules.recognise import is_nvidia_wheel
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.facts import ElfObject
from gpuforge.grouping import grouped


@rule(
    "GF301",
    "error",
    "an RPATH or RUNPATH entry is relative to the working directory",
    why="Libraries are loaded from the folder in which the program is started.",
    fix="Make the entry relative to $ORIGIN, or remove it.",
)
def rpath_relative(graph: LinkGraph) -> Iterator[Finding]:
    """Find entries that begin neither with `/` nor with `$ORIGIN`.

    An empty entry is the working directory itself (glibc, elf/dl-load.c, fillin_rpath).
    """
    for found in graph.linked:
        for route in layout.written(found):
            if not layout.expanded(route.entry, "/").startswith("/"):
                yield rpath_relative.finding(
                    found.wheel,
                    Subject(file=found.file, kind=route.kind, about=(route.entry,)),
                    cause=(route.kind, route.entry),
                    what=f"{route.kind} has the entry {route.entry!r}, which "
                    + (
                        "is relative to the working directory."
                        if route.entry
                        else "means the working directory."
                    ),
                    commands=commands.search_path(graph, found),
                )


_ANYBODYS = ("/tmp/", "/var/tmp/", "/dev/shm/")  # noqa: S108 - nothing is written there


@rule("GF302", "error", "an RPATH or RUNPATH entry is an absolute path", contradicts="providers")
def rpath_absolute(graph: LinkGraph) -> Iterator[Finding]:
    """Find absolute entries: an error for folders that every user of a machine can make.

    A folder of the build machine is not there for anybody else. Whether the libraries are found without it is what
    GF201 and GF202 judge, so here it is a warning.
    """
    for found in graph.linked:
        for route in layout.written(found):
            if not route.entry.startswith("/"):
                continue
            text = _UNUSED
            if f"{route.entry}/".startswith(_ANYBODYS):
                text = _WRITABLE
            elif layout.is_shared(route.entry):
                text = _of_system(graph, found, route)
            yield rpath_absolute.finding(
                found.wheel,
                Subject(file=found.file, item=route),
                text=text,
                cause=(text.what,),
                commands=() if text is _ONLY else commands.search_path(graph, found),
            )


_FIX = "Replace them with paths relative to $ORIGIN, or remove them."
_FIRST = Text(
    "Search paths lead to folders of the system.",
    "Libraries there are loaded instead of those that pip installed.",
    _FIX,
    "warning",
)
_ONLY = Text(
    "Search paths lead to folders of the system, for libraries that nothing else brings.",
    "The libraries are found there if users have installed them, and nothing is loaded instead of what pip installed.",
    "None needed. Document what users have to install.",
    "info",
)
_SYSTEM = Text(
    "Search paths lead to folders of the system, and the libraries are found without them.",
    "Libraries there may be loaded instead of those in the system's own folders.",
    _FIX,
    "info",
)
_UNUSED = Text(
    "Search paths lead to folders of the build machine.",
    "On other machines they do not exist, or contain other files.",
    _FIX,
    "warning",
)
_WRITABLE = Text(
    "Search paths lead to folders that every user of a machine can create.",
    "Whoever creates one chooses the libraries that other users load.",
    _FIX,
)


def _of_system(graph: LinkGraph, binary: ElfObject, route: Route) -> Text:
    """Return the text for a folder of the system, by what the entries before it leave to be found."""
    before = [entry.route for entry in takewhile(lambda e: e.route != route, layout.search(binary, ()))]
    left = [edge for edge in graph.from_object(binary) if edge.route not in before]
    if any(_is_installed(graph, edge) for edge in left):
        return _FIRST
    return _ONLY if any(commands.belongs_to_machine(graph, edge) for edge in left) else _SYSTEM


def _is_installed(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether the linker finds a library that the wheel or a package has: none has loaded it before."""
    if commands.belongs_to_machine(graph, edge) or not edge.route or edge.route.kind in {"import", "loaded"}:
        return False
    return edge.provider.source in {"wheel", "sibling", "package"} and not edge.preload


@rule(
    "GF303",
    "warning",
    "an RPATH or RUNPATH entry leads out of the environment",
    what="Search paths lead out of the environment that the wheel is installed in.",
    why="Libraries there belong to other software, and are loaded if they have the right name.",
    fix="Keep the entries that stay within site-packages, and remove the rest.",
    applies_to=PACKAGES,
)
def rpath_escaping(graph: LinkGraph) -> Iterator[Finding]:
    """Find entries with so many `..` after $ORIGIN that they end above the environment's folder."""
    for found in graph.linked:
        origin = posixpath.dirname(layout.install_path(found.file))
        for route in layout.written(found):
            folder = layout.expanded(route.entry, origin)
            if route.entry.startswith("/") or not folder.startswith("/"):
                continue
            target = posixpath.normpath(folder)
            if not f"{target}/".startswith(f"{layout.ENVIRONMENT}/"):
                yield rpath_escaping.finding(
                    found.wheel,
                    Subject(file=found.file, item=route),
                    commands=commands.search_path(graph, found),
                )


@rule(
    "GF304",
    "info",
    "an RPATH, not a RUNPATH, leads to the libraries of other packages",
    what="Objects find the libraries of other packages by RPATH, not RUNPATH.",
    why="Users cannot replace these libraries with LD_LIBRARY_PATH, and libraries loaded through "
    "these objects search the same folders.",
    fix="Link with -Wl,--enable-new-dtags, or turn the RPATH into a RUNPATH, which serves only its own "
    "object: libraries that this one loads need theirs.",
)
def rpath_inherited(graph: LinkGraph) -> Iterator[Finding]:
    """Find objects that reach other packages by DT_RPATH, which precedes LD_LIBRARY_PATH and is inherited.

    An RPATH within its own wheel is written by auditwheel, and does no harm.
    """
    inherited = ((w, o) for w in graph.wheels for o in w.linked if o.rpath and o.runpath is None)
    for found in (o for wheel, o in inherited if not is_nvidia_wheel(wheel)):
        led = [
            edge
            for edge in graph.from_object(found)
            if edge.provider.source in ("package", "sibling")
            and any(edge.route == Route("RPATH", entry) for entry in found.rpath or ())
        ]
        if led:
            entries = tuple(dict.fromkeys(edge.route.entry for edge in led if edge.route))
            yield rpath_inherited.finding(
                found.wheel,
                Subject(file=found.file, detail="RPATH", names=entries),
                commands=commands.search_path(graph, found),
            )


@rule(
    "GF305",
    "warning",
    "the order of search paths lets another package's library win",
    fix="Put the entry that leads to the right library first.",
)
def rpath_order(graph: LinkGraph) -> Iterator[Finding]:
    """Find entries before the right one for a NEEDED library, in which another copy of it may be."""
    places = {w.name: {layout.install_path(o.file) for o in w.linked} for w in graph.wheels}
    for edge in graph.edges:
        if edge.provider.source not in ("wheel", "package") or not (edge.route and edge.route.is_path):
            continue
        file, package, route = edge.loader.file, edge.provider.package, edge.route
        found = [("before", (entry, route)) for entry in _before(edge)]
        found += [("behind", (route, entry)) for entry in _behind(edge, places[edge.loader.wheel])]
        for cause, routes in found:
            yield rpath_order.finding(
                edge.loader.wheel,
                Subject(file=file, library=edge.needed, provider=package, routes=routes),
                cause=(cause,),
                text=_ORDER[cause],
                commands=commands.search_path(graph, edge.loader),
            )


_ORDER = {
    "before": rpath_order.text._replace(
        what="Folders of the system or of other packages come first in the search paths.",
        why="If such a folder has a copy of the library, of any version, that copy is loaded.",
    ),
    "behind": rpath_order.text._replace(
        what="Search paths lead to another package before the wheel's own library of that name.",
        why="Where that package is installed, its library is loaded instead.",
    ),
}


def _behind(edge: Edge, places: set[str]) -> Iterator[Route]:
    """Yield the first entry behind the one that leads to a package, in whose folder the wheel has its own copy."""
    if edge.provider.source != "package":
        return
    after = dropwhile(lambda entry: entry.route != edge.route, layout.search(edge.loader, ()))
    yield from islice((e.route for e in after if f"{e.folder}/{edge.needed}" in places), 1)


def _before(edge: Edge) -> Iterator[Route]:
    rivals = {
        posixpath.join(layout.SITE, library.folder) for library in package_tables.candidates(edge.needed)
    }
    for entry in layout.search(edge.loader, ()):
        if entry.route == edge.route:
            return
        outside = not f"{entry.folder}/".startswith(f"{layout.ENVIRONMENT}/")
        if (outside and layout.is_shared(entry.folder)) or entry.folder in rivals:
            yield entry.route


@rule(
    "GF306",
    "error",
    "a text file of the wheel names paths of the build machine",
    fix="Write paths relative to the file itself: $(dir $(lastword $(MAKEFILE_LIST))) in makefiles, "
    'CMAKE_CURRENT_LIST_DIR in CMake, ${pcfiledir} for pkg-config, $(dirname "$0") in scripts.',
    applies_to=PACKAGES,
)
def build_files(_: LinkGraph, wheel: WheelFacts) -> Iterator[Finding]:
    """Find absolute paths that are not on every system in the files that users build with, and in configurations."""
    by_user = _used_by_compile(wheel)
    kinds = grouped(("used" if path.file in by_user else path.kind, path) for path in wheel.build_paths)
    for kind, paths in kinds.items():
        yield build_files.finding(
            wheel.name,
            [Subject(file=path.file, item=path.path) for path in paths],
            cause=() if kind == "build file" else (kind,),
            text=_PATHS[kind],
        )


_FAILS = "On other machines these paths do not exist, and a build that uses them fails."
_FIX_PATHS = build_files.text.fix
_PATHS = {
    "used": Text(
        "What users compile with has paths of the build machine.",
        "On other machines these paths do not exist, and `compile` fails.",
        _FIX_PATHS,
        "error",
    ),
    "build file": Text(
        "Build files in the wheel contain paths of the build machine.", _FAILS, _FIX_PATHS, "warning"
    ),
    "script": Text(
        "Scripts in the wheel contain paths of the build machine.",
        "On other machines these paths do not exist, and the script fails.",
        _FIX_PATHS,
        "warning",
    ),
    "configuration": Text(
        "Python files that record how the package was built contain paths of the build machine.",
        "Code that uses them, to call a compiler or to find headers, fails on other machines.",
        "None needed if they are only shown. Otherwise find the folders at run time, relative to __file__.",
        "info",
    ),
}


def _used_by_compile(wheel: WheelFacts) -> frozenset[str]:
    """Return the files with paths that a user's build reads: its sources, and all files of a command in the wheel."""
    recipes = [each.recipe for each in wheel.sources if isinstance(each.recipe, Recipe)]
    programs = {t.program for recipe in recipes for t in recipe.toolchains if t.by_command}
    scripts = {posixpath.basename(path) for path in wheel.members if "/" in path} & programs
    return frozenset(
        path.file
        for path in wheel.build_paths
        if scripts or any(path.file.startswith(f"{each.folder}/") for each in wheel.sources)
    )


@rule(
    "GF307",
    "warning",
    "LD_LIBRARY_PATH has a library that is loaded instead of the environment's",
    what="LD_LIBRARY_PATH has libraries that RUNPATHs lead to.",
    why="Those in LD_LIBRARY_PATH are loaded, whatever their release: missing symbols, and errors of "
    "CUDA's libraries that do not fit together.",
    fix="Unset LD_LIBRARY_PATH for this environment, or remove the folder from it.",
    of_process=True,
)
def library_path(graph: LinkGraph) -> Iterator[Finding]:
    """Find NEEDED libraries that a RUNPATH leads to and that LD_LIBRARY_PATH has, too.

    The dynamic linker searches RPATH, then LD_LIBRARY_PATH, then RUNPATH (ld.so(8)).
    """
    for edge in graph.edges if graph.overriding else ():
        folder = graph.overriding.get(edge.needed)
        if folder and edge.route and edge.route.kind == "RUNPATH":
            subject = Subject(
                library=edge.needed,
                provider=edge.provider.package,
                detail="{folder} has it, too",
                facts=facts_of(folder=folder),
                needed_by=(edge.loader.file,),
            )
            yield library_path.finding(edge.loader.wheel, subject, files=(edge.loader.file,))
