"""Commands that repair an unpacked wheel: search paths, names of libraries, WHEEL and METADATA."""

import posixpath
import shlex
from collections.abc import Collection, Iterable
from functools import lru_cache

from packaging.tags import Tag

from gpuforge.audit import layout
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge, Key, key
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.link.installed import cuda_major
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, libraries


#
# The command replaces the whole path, so it has what is right in the old one and all folders that are missing.
# """
def search_path(graph: LinkGraph, binary: ElfObject) -> tuple[str, ...]:
    """Return the command that gives an object the search path that it should have; none if that is the path it has.

    An RPATH stays one, as the libraries that the object loads may rely on it. If it leads to other packages, it becomes
    a RUNPATH (GF304), and each library that relied on it gets one, too.
    """
    known = _known(graph)
    if key(binary) not in known:
        known[key(binary)] = _found(graph, binary)
    return known[key(binary)]


@lru_cache(maxsize=1)  # several rules, and each edge of an object, call it with one graph
def _known(graph: LinkGraph) -> dict[Key, tuple[str, ...]]:
    return {}


def _found(graph: LinkGraph, binary: ElfObject) -> tuple[str, ...]:
    if not _has_rpath(binary):
        return _commands(graph, binary, is_rpath=False)
    if not _needs_packages(graph, binary):
        return _commands(graph, binary, is_rpath=True)
    every = (binary, *_inheriting(graph, binary))
    return tuple(command for each in every for command in _commands(graph, each, is_rpath=False))


@lru_cache(maxsize=1)
def _places(wheel: str, graph: LinkGraph) -> frozenset[str]:
    """Return the places of the libraries of a wheel."""
    return frozenset(layout.install_path(o.file) for o in graph.wheel(wheel).objects if o.links)


def _commands(graph: LinkGraph, binary: ElfObject, *, is_rpath: bool) -> tuple[str, ...]:
    # an object with a RUNPATH finds nothing by the RPATHs of those that have loaded it
    entries = _entries(graph, binary, inherits=is_rpath)
    changes = entries != _written(binary) or _has_rpath(binary) != is_rpath
    if entries is None or not changes:
        return ()
    file = shlex.quote(binary.file if not binary.file.startswith("-") else f"./{binary.file}")
    if not entries:
        return (f"patchelf --remove-rpath {file}",)
    force = "--force-rpath " if is_rpath else ""
    change = f"patchelf {force}--set-rpath {shlex.quote(':'.join(entries))} {file}"
    if binary.rpath is not None and binary.runpath is not None:  # --set-rpath changes only one of them
        return (f"patchelf --remove-rpath {file} && {change}",)
    return (change,)


def _has_rpath(binary: ElfObject) -> bool:
    """Return whether the linker searches by an object's RPATH: a RUNPATH replaces it."""
    return binary.rpath is not None and binary.runpath is None


def _needs_packages(graph: LinkGraph, binary: ElfObject) -> bool:
    """Return whether an object finds libraries of other packages by its own search path, or has to."""
    edges = (*graph.from_object(binary), *graph.opened_by(binary))
    return any(
        edge.provider.source in {"package", "sibling"}
        and (_missing(edge, inherits=True) or (edge.route and edge.route.is_path and not edge.route.via))
        for edge in edges
    )


def _inheriting(graph: LinkGraph, binary: ElfObject) -> tuple[ElfObject, ...]:
    """Return the objects of its wheel that find libraries by the RPATH of an object that has loaded them."""
    edges = [e for e in graph.edges_of(graph.wheel(binary.wheel)) if e.route and e.route.kind == "RPATH"]
    found: dict[str, ElfObject] = {}
    queue = [binary.name]
    for name in queue:
        led = {e.loader.file: e.loader for e in edges if e.route and e.route.via == name}
        queue += [o.name for file, o in led.items() if file not in found]
        found |= led
    found.pop(binary.file, None)
    return tuple(found.values())


def belongs_to_machine(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether users install a library themselves: nothing brings it, or the manifest leaves CUDA to them."""
    system = graph.expectation is not None and graph.expectation.linkage == "system"
    return edge.reason == "unknown" or (system and libraries.is_toolkit(edge.needed))


def _written(binary: ElfObject) -> list[str]:
    return [route.entry for route in layout.written(binary)]


def _entries(graph: LinkGraph, binary: ElfObject, *, inherits: bool) -> list[str] | None:
    """Return the entries in their order; None if the path to a missing folder differs from machine to machine."""
    origin = posixpath.dirname(layout.install_path(binary.file))
    edges = graph.from_object(binary)
    opened = (edge for edge in graph.opened_by(binary) if edge.reason == "no path")
    missing = dict.fromkeys(filter(None, (_missing(edge, inherits=inherits) for edge in (*edges, *opened))))
    old: dict[str, str] = {}  # folder -> entry
    shared: dict[str, None] = {}  # folders of the system come last
    for entry in _written(binary):
        folder = posixpath.normpath(layout.expanded(entry, origin))
        if layout.is_shared(entry):
            shared |= {entry: None} if any(belongs_to_machine(graph, edge) for edge in edges) else {}
        elif not entry.startswith("/") and f"{folder}/".startswith(f"{layout.ENVIRONMENT}/"):
            old.setdefault(folder, _entry(origin, folder) or entry)
    new = [_entry(origin, folder) for folder in missing if folder not in old]
    if not all(new):
        return None
    return [*(old[folder] for folder in _ordered(graph, binary, old, missing)), *filter(None, new), *shared]


def _ordered(
    graph: LinkGraph, binary: ElfObject, folders: Iterable[str], missing: Collection[str]
) -> list[str]:
    """Put own copies of libraries before those of packages, and folders without a NEEDED library last."""
    own = _places(binary.wheel, graph)
    edges = [edge for edge in graph.from_object(binary) if edge.route]
    used = {entry.folder for entry in layout.search(binary, ()) if any(entry.route == e.route for e in edges)}
    rivals = {f"/{edge.needed}" for edge in edges if edge.provider.source == "package"}

    def rank(folder: str) -> int:
        if any(f"{folder}{name}" in own for name in rivals):
            return 0
        return 1 if folder in used or folder in missing else 2

    return sorted(folders, key=rank)


def _missing(edge: Edge, *, inherits: bool) -> str | None:
    """Return the folder of a library that an entry has to lead to; None if the linker finds it without."""
    through = edge.obstacle is not None and edge.obstacle.kind == "folder"
    lost = edge.reason in {"no path", "not required"} or edge.sometimes or through
    inherited = edge.route is not None and edge.route.kind == "RPATH" and bool(edge.route.via)
    if not lost and (inherits or not inherited):
        return None
    target = edge.provider.object
    if target is not None:
        there = target.name == edge.needed
        return posixpath.dirname(layout.install_path(target.file)) if there else None
    known = package_tables.candidates(edge.needed)
    return next(
        (f"{layout.SITE}/{each.folder}" for each in known if each.package == edge.provider.package), None
    )


def _entry(origin: str, folder: str) -> str | None:
    """Return the entry that leads to a folder; None if the path there is not the same in every environment."""
    if "$" in folder or layout.Folder.of(origin).among_packages != layout.Folder.of(folder).among_packages:
        return None
    way = posixpath.relpath(folder, origin)
    return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"


def renaming(user: ElfObject, old: str, new: str) -> str:
    """Return the command that changes a name in NEEDED and in the symbol versions, also if only one of them has it."""
    return f"patchelf --replace-needed {shlex.quote(old)} {shlex.quote(new)} {shlex.quote(user.file)}"


def with_tags(wheel: WheelFacts, tags: Iterable[Tag]) -> tuple[str, ...]:
    """Return the command that replaces the tags; `wheel tags` ends with a traceback where they contradict the name."""
    lines = sorted({f"Tag: {tag}" for tag in tags})
    return _edited(wheel, "WHEEL", (*(f"1a {line}" for line in lines), "/^Tag:/d")) if lines else ()


def as_platlib(wheel: WheelFacts) -> tuple[str, ...]:
    """Return the command that declares a wheel as not pure."""
    return _edited(wheel, "WHEEL", ("s/^Root-Is-Purelib:.*/Root-Is-Purelib: false/",))


def with_requirement(wheel: WheelFacts, package: str) -> tuple[str, ...]:
    """Return the command that requires a package; of a framework the releases for the CUDA major of the wheel."""
    clause = ""
    if carriers.has_rows(package) and (major := cuda_major(n for o in wheel.objects for n in o.needed)):
        clause = carriers.end_of(package, major)
    return _edited(wheel, "METADATA", (f"1a Requires-Dist: {package}{clause}",))


def with_purelib(wheel: WheelFacts, *, pure: bool) -> tuple[str, ...]:
    """Return the command that leaves one Root-Is-Purelib line."""
    return _edited(wheel, "WHEEL", (f"1a Root-Is-Purelib: {str(pure).lower()}", "/^Root-Is-Purelib:/d"))


def _edited(wheel: WheelFacts, file: str, script: Iterable[str]) -> tuple[str, ...]:
    end = f".dist-info/{file}"  # compared for each finding, and there may be thousands of both
    member = next((name for name in wheel.members if name.endswith(end) and name.count("/") == 1), "")
    lines = " ".join(f"-e {shlex.quote(line)}" for line in script)
    return (f"sed -i {lines} {shlex.quote(member)}",) if member else ()
