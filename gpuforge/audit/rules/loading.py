"""Decides whether a library without a search path to it may be in the process already."""

from collections.abc import Iterable, Iterator

from gpuforge.audit import layout
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import PACKAGES, Launcher, Preload, WheelFacts
from gpuforge.binary.facts import ElfObject


def may_be_loaded(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether a library of the wheel without a search path to it may be in the process already.

    Another object may load it first. Python code of its own part of the wheel may import it, name it among the
    libraries that it loads, or load the value of a variable. A wheel without code is for others to load from, who may
    load both libraries by paths to one folder. A program starts with nothing loaded, but Python code may start it with
    an LD_LIBRARY_PATH: code of other packages if the wheel has none.
    """
    target = edge.provider.object
    if target is None:
        return False
    wheel = graph.wheel(edge.loader.wheel)
    if edge.loader.is_program:
        # programs in a folder `bin` are meant to be started by hand, too
        others = not has_code(wheel) and "/bin/" not in f"/{edge.loader.file}"
        return others or any(_may_start(each, edge.loader) for each in wheel.launchers)
    loaders = [preload for preload in wheel.preloads if not preload.is_late_for(edge.loader)]
    if edge.provider.source == "sibling":  # importing a required package may load it
        loaders += [p for w in _required(graph, wheel) if w.name == target.wheel for p in w.preloads]
    loads = any(_may_load(p, target) for p in loaders) or _plugin(graph, wheel, edge.loader)
    folders = {layout.install_path(o.file).rpartition("/")[0] for o in (target, edge.loader)}
    bundle = len(folders) == 1 and not has_code(wheel)
    return loads or bundle or target.is_python_module or any(other.route for other in graph.users(target))


def _required(graph: LinkGraph, wheel: WheelFacts) -> Iterator[WheelFacts]:
    known = graph.declared[wheel.name]
    return (w for w in graph.wheels if w is not wheel and w.project in known and not known[w.project].extra)


def _may_start(launcher: Launcher, program: ElfObject) -> bool:
    """Return whether code that starts programs may start this one: it is in its part of the wheel or has its name."""
    part = program.file.partition("/")[0]
    return launcher.file.partition("/")[0] == part or program.name in launcher.programs


def _may_load(preload: Preload, target: ElfObject) -> bool:
    """Return whether a Python file may load an object: it names it, or may load any library of its own package.

    Libraries in a `.libs` folder belong to all packages of the wheel.
    """
    if preload.bare:
        return False
    if preload.opens(target.name, target.soname):
        return True
    part = target.file.partition("/")[0]
    return not preload.fixed and (part.endswith(".libs") or preload.file.partition("/")[0] == part)


def _plugin(graph: LinkGraph, wheel: WheelFacts, binary: ElfObject) -> bool:
    """Return whether an object is a plugin for a program of another package, which decides what is loaded before it.

    It needs a library of that program, without a version, unlike libraries of the system, and nothing in its own wheel
    could load it.
    """
    edges = [
        e for e in graph.from_object(binary) if e.provider.source in ("nobody", "sibling") and not e.route
    ]
    if not any(e.needed.endswith(".so") for e in edges):
        return False
    return not has_code(wheel)


def is_imported(wheel: WheelFacts, roots: Iterable[ElfObject]) -> bool:
    """Return whether an import or a program leads to an object with these roots: code names one among what it opens.

    Else compiled code opens it, as a plug-in. For a wheel without code, and for single binaries, it is unknown what
    loads them.
    """
    if wheel.form not in PACKAGES or not has_code(wheel):
        return True
    called = [preload for preload in wheel.preloads if not preload.uncalled]
    return any(
        root.is_program or root.is_python_module or any(p.may_open(root.name, root.soname) for p in called)
        for root in roots
    )


def may_be_imported(graph: LinkGraph, binary: ElfObject) -> bool:
    """Return whether an import may lead to an object: also by code that opens the values of variables.

    What an imported object NEEDs and does not find counts, too: it is loaded as soon as it is found.
    """
    wheel = graph.wheel(binary.wheel)
    users = (edge.loader for edge in graph.users(binary) if not edge.route)
    roots = [root for each in (binary, *users) for root in graph.roots(each)]
    called = [preload for preload in wheel.preloads if not preload.uncalled]
    return is_imported(wheel, roots) or any(_may_load(p, root) for p in called for root in roots)


def has_code(wheel: WheelFacts) -> bool:
    """Return whether a wheel has Python code or modules; the libraries of one without are loaded by others."""
    code = any(name.endswith(".py") and size for name, size in wheel.members.items())
    return code or any(o.is_python_module for o in wheel.objects)


def brought_by_need(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether an object needs another object of its wheel that finds the library, and is loaded before it.

    All NEEDED libraries of a program are looked for when it starts.
    """
    return not edge.loader.is_program and any(
        other.needed == edge.needed and other.route
        for own in graph.from_object(edge.loader)
        if own.provider.source == "wheel" and own.provider.object is not None and may_be_loaded(graph, own)
        for other in graph.from_object(own.provider.object)
    )


def brought_by_module(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether a library of a package is in the process once the wheel's own Python modules are imported.

    Python code that opens libraries later finds it then. A module may be the first import of the process, and a program
    starts with nothing loaded.
    """
    if edge.loader.is_program or edge.loader.is_python_module:
        return False
    return any(
        other.needed == edge.needed and other.route and other.loader.is_python_module
        for other in graph.edges
        if other.loader.wheel == edge.loader.wheel
    )


def brought_by_package(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether Python code loads, for this object, another package's library that NEEDs this one."""
    return any(
        edge.needed in library.needs
        for other in graph.from_object(edge.loader)
        if other.preload and other.provider.declared
        for library in package_tables.candidates(other.needed)
        if library.package == other.provider.package
    )
