"""GF201 to GF205: the provider of each NEEDED library, and the way to it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache

from gpuforge.audit import layout, policy
from gpuforge.audit.findings import Facts, Finding, Severity, Subject, facts_of
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge, Obstacle
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import ARCHIVES, PACKAGES, SEVERAL_FILES, Preload
from gpuforge.audit.rules import commands
from gpuforge.audit.rules.clues import Clue, clues, implied_other_major, without_requirements
from gpuforge.audit.rules.loading import (
    brought_by_module,
    brought_by_need,
    brought_by_package,
    may_be_imported,
    may_be_loaded,
)
from gpuforge.audit.rules.recognise import is_for_other_framework, other_framework, variant_family
from gpuforge.audit.rules.rule import Text, rule
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, libraries, sonames
from gpuforge.cuda.suffix import is_of_nvidia, suffix_of


@rule("GF201", "error", "a NEEDED library has no provider", applies_to=PACKAGES, contradicts="providers")
def provider_missing(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges to libraries that neither a wheel nor a declared package nor the system has.

    With `linkage = "system"` in the manifest, CUDA's own libraries belong to the machine.
    """
    machines = graph.expectation is not None and graph.expectation.linkage == "system"
    edges = [e for e in graph.edges if not (machines and libraries.is_toolkit(e.needed))]
    found = clues(graph, (e for e in edges if e.reason == "unknown"))
    for edge in edges:
        if edge.reason == "not required":
            yield _missing(graph, edge)
        elif edge.reason == "unknown":
            yield _unknown(graph, edge, found[edge.loader.wheel, edge.loader.file, edge.needed])
        elif edge.provider.source == "package" and edge.provider.unproved and edge.route:
            yield _unproved(edge)
    for edge in edges:
        opened = edge.preload is not None and not edge.preload.pathfinder and not edge.route
        of_package = edge.provider.source == "package"
        if opened and of_package and edge.loader.wheel in without_requirements(graph):
            yield _missing(graph, edge)


_NOT_IN_WHEEL = "These libraries are not in the wheel"
_FAILS = "The import fails unless the user has installed the libraries some other way."
_PLUGIN_FAILS = (
    "No import loads these objects. What opens them fails unless the user has installed the libraries."
)
_NOTHING_REQUIRED = "The wheel has no Requires-Dist line, and nothing provides these libraries."
_NOTHING_PROVIDES = (
    "Nothing provides these libraries: they are not in the wheel, and no Requires-Dist line brings them."
)


_ONE_OF = (
    "These objects are alternatives for several versions of the libraries: none of them loads unless the user has "
    "installed one of the versions."
)


def _missing(graph: LinkGraph, edge: Edge) -> Finding:
    bare = edge.loader.wheel in without_requirements(graph)
    others = _unknown_carriers(graph, edge)
    framework = other_framework(graph, edge.loader)
    lacking = edge.provider.lacking
    imported = may_be_imported(graph, edge.loader)
    detail, facts = _otherwise_loaded(graph, edge) if bare else ("", ())
    return provider_missing.finding(
        edge.loader.wheel,
        _subject(edge, edge.provider.package, detail, facts),
        severity="warning" if others or framework else "error",
        cause=(bare, *others, lacking.line if lacking else "", framework, imported),
        what=(_NOTHING_REQUIRED if bare else _NOTHING_PROVIDES)
        + (f" {', '.join(others)} may bring them: its requirements are unknown." if others else "")
        + (f" The package that pip installs for {lacking.line!r} does not have them." if lacking else "")
        + (
            f" Their names suggest that these objects are for users of {framework} only." if framework else ""
        ),
        why=_FAILS if imported else _PLUGIN_FAILS,
        fix="Add the packages to Requires-Dist, and give the objects a RUNPATH to their folders. gpuforge repair does "
        "both, for torch with --provided-by torch==VERSION.",
        commands=(
            *commands.with_requirement(graph.wheel(edge.loader.wheel), edge.provider.package),
            *commands.search_path(graph, edge.loader),
        ),
    )


def _unproved(edge: Edge) -> Finding:
    """Return the finding of a library whose package is declared, but may not bring it."""
    declared = edge.provider.declared
    detail, facts = ("{requirement!r}", facts_of(requirement=declared.line)) if declared else ("", ())
    return provider_missing.finding(
        edge.loader.wheel,
        _subject(edge, edge.provider.package, detail, facts),
        text=_UNPROVED[edge.provider.unproved],
        cause=(edge.provider.unproved,),
    )


_UNPROVED = {
    "extra": Text(
        "METADATA has no Provides-Extra line for the extras that bring these libraries.",
        "pip installs nothing for such an extra, and the import fails; uv installs its packages.",
        "Add the line Provides-Extra: NAME, as build backends do for [project.optional-dependencies].",
        "warning",
    ),
    "python": Text(
        "pip installs the packages of these libraries for only some of the Pythons that the wheel is for.",
        "With the other Pythons the import fails.",
        "Require the packages for all of these Pythons, or state the right ones in Requires-Python.",
        "warning",
    ),
    "name": Text(
        "The names of these packages suggest that they have the libraries; no list of their files is known.",
        "The import fails if the package does not have them.",
        "Audit the wheel together with that package: gpuforge audit FILE.whl OTHER.whl",
        "info",
    ),
    "release": Text(
        "No release that the requirement allows is known to have these libraries.",
        "The import fails if the release that pip installs does not have them.",
        "Require a release of the package that has the libraries.",
        "info",
    ),
}


def _subject(edge: Edge, provider: str = "", detail: str = "", facts: Facts = (), kind: str = "") -> Subject:
    """Return a NEEDED entry as a subject."""
    return Subject(
        library=edge.needed,
        provider=provider,
        detail=detail,
        facts=facts,
        kind=kind,
        needed_by=(edge.loader.file,),
    )


def _otherwise_loaded(graph: LinkGraph, edge: Edge) -> tuple[str, Facts]:
    """Return the Python file that opens the missing library, or the package that has it for another CUDA major."""
    if edge.preload:
        return "{opener} opens it if it finds it", facts_of(opener=edge.preload.file)
    if other := implied_other_major(graph, edge):
        return "{requirement} brings {package}", facts_of(requirement=other.line, package=other.package)
    return "", ()


def _unknown_carriers(graph: LinkGraph, edge: Edge) -> list[str]:
    """Return required packages for a CUDA major whose own requirements are in no table; NVIDIA's bring no others."""
    known = graph.declared[edge.loader.wheel]
    return [
        package
        for package, d in known.items()
        if suffix_of(package)
        and not is_of_nvidia(package)
        and package not in carriers.nvidia_packages()
        and sum(o.line == d.line for o in known.values()) == 1
    ]


def _unknown(graph: LinkGraph, edge: Edge, clue: Clue) -> Finding:
    """Return the finding of a library that nothing is known to provide."""
    severity: Severity = "warning"
    family, of_python = "", False
    imported = may_be_imported(graph, edge.loader)
    fails = _FAILS if imported else _PLUGIN_FAILS
    alternative = len(_versions(graph)[_family(edge)]) > 1
    match clue.kind:
        case "import":
            what = f"{_NOT_IN_WHEEL}, and no requirement brings them; {' or '.join(clue.packages)} would."
            why, fix = fails, "Add one of these packages to Requires-Dist, always or in an extra."
        case "toolkit":
            unsure = is_for_other_framework(graph, edge.loader) or _unknown_carriers(graph, edge)
            severity = "warning" if unsure else provider_missing.severity
            what = "Neither the wheel nor any package of NVIDIA on PyPI has these versions of CUDA libraries."
            why = "The import works only on machines where the dynamic linker finds that CUDA toolkit."
            fix = "Build with a toolkit whose libraries are on PyPI (CUDA 11, 12 or 13), or link them statically."
        case "none":
            platforms = graph.wheel(edge.loader.wheel).platforms
            family = "musllinux" if "musl" in policy.systems_of(edge.loader, platforms) else "manylinux"
            what = f"{_NOT_IN_WHEEL}, the {family} policies do not promise them, and no known package brings them."
            why = _ONE_OF if alternative else fails
            fix = "Graft them (auditwheel repair), link them statically, or document what users have to install."
            if of_python := _LIBPYTHON.match(edge.needed) is not None and not edge.loader.is_program:
                what = "Objects NEED libpython, and many Pythons have no such library: it is in the program."
                fix = "Link them without it (CMake: Python::Module instead of Python::Python)."
        case _:
            severity = "info"
            what, why = f"{_NOT_IN_WHEEL}, and gpuforge does not know which package has them.", _where(clue)
            fix = "Audit the wheel together with that package: gpuforge audit FILE.whl OTHER.whl"
    note = "a compiler's runtime" if clue.of_compiler else ""
    return provider_missing.finding(
        edge.loader.wheel,
        _subject(edge, detail=note),
        severity=severity,
        cause=(clue.kind, clue.packages, clue.parent, family, imported, alternative, of_python),
        what=what,
        why=why,
        fix=fix,
        commands=[shlex.join(["patchelf", "--remove-needed", edge.needed, edge.loader.file])] * of_python,
    )


_LIBPYTHON = re.compile(r"libpython\d")


@lru_cache(maxsize=1)
def _versions(graph: LinkGraph) -> Mapping[tuple[str, str, str], set[str]]:
    """Return the names of unknown libraries, by what their versions and objects have in common.

    Of alternatives (libx_ffmpeg4.so, libx_ffmpeg5.so) code loads the one whose library the user has installed.
    """
    found: dict[tuple[str, str, str], set[str]] = {}
    for edge in graph.edges:
        if edge.reason == "unknown":
            found.setdefault(_family(edge), set()).add(edge.needed)
    return found


def _family(edge: Edge) -> tuple[str, str, str]:
    return edge.loader.wheel, re.sub(r"\d+", "#", edge.loader.file), sonames.stem(edge.needed)


def _where(clue: Clue) -> str:
    """Return the required package that may have a library, as a phrase."""
    names = ", ".join(clue.packages)
    match clue.kind:
        case "folder":
            return f"Search paths lead to folders of {names}, which the wheel requires."
        case "release":
            return f"{names}, required in the same version, may have them."
        case "parent":
            either = " or ".join(clue.packages)
            return f"{clue.parent}, which the wheel requires, may bring {either}, which has them."
        case _:
            return "Search paths lead to the environment's lib folder, where a required package may put them."


_THINGS = {"folder": "folder", "installed": "package"}


@rule(
    "GF202",
    "error",
    "a NEEDED library is provided, but no RPATH or RUNPATH leads to it",
    applies_to=SEVERAL_FILES,
    contradicts="providers",
)
def provider_unreachable(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges with a provider but without a route, unless Python code loads the library first.

    A route in one load set does not help another, which may be the first in its process. No edge leads to
    Python modules.
    """
    for module in graph.linked:
        if module.no_dlopen and module.is_python_module and policy.c_libraries(module) != {"musl"}:
            yield provider_unreachable.finding(
                module.wheel, Subject(file=module.file, kind="nodlopen"), text=_MODULE, cause=("module",)
            )
    for edge in graph.edges:
        if edge.reason == "no path":
            yield (_in_wheel_given if edge.provider.object else _declared)(graph, edge)
        elif edge.reason == "not loaded" and edge.obstacle:
            yield _not_loaded(graph, edge, edge.obstacle)
        elif edge.sometimes:
            yield _from_some(graph, edge)
        elif edge.route and edge.route.package and _is_early(graph, edge):
            yield _too_early(edge, edge.route.package)


_FIX = (
    "Give the objects a search path to the libraries when they are linked (-Wl,-rpath), or between `wheel unpack` and "
    "`wheel pack`."
)
_FIX_NAME = (
    "The dynamic linker looks for files with the names that are NEEDED, and these files have others. Rename them, and "
    "give the objects a search path to them; or leave them out, if users install the libraries."
)


_BEFORE = {
    "module": "a Python module of the wheel that has a path to them",
    "library": "another library of the wheel that has a path to them",
    "package": "a library of another package that needs them",
}


def _declared(graph: LinkGraph, edge: Edge) -> Finding:
    brought = {"module": brought_by_module, "library": brought_by_need, "package": brought_by_package}
    before = next((kind for kind, holds in brought.items() if holds(graph, edge)), "")
    if edge.loader.is_program:
        fails = "The program does not start"
    elif may_be_imported(graph, edge.loader):
        fails = "The import fails"
    else:
        fails = "No import loads these objects, and what opens them fails"
    return provider_unreachable.finding(
        edge.loader.wheel,
        _subject(edge, edge.provider.package),
        severity="warning" if before else "error",
        cause=("declared", before or fails),
        what="No search path leads to these libraries of declared packages.",
        why=f"The import works only if {_BEFORE[before]} was {'imported' if before == 'module' else 'loaded'} before."
        if before
        else f"{fails}: the dynamic linker does not search the folder where pip installs them.",
        fix=_FIX,
        commands=commands.search_path(graph, edge.loader),
    )


def _from_some(graph: LinkGraph, edge: Edge) -> Finding:
    target = edge.provider.object
    return provider_unreachable.finding(
        edge.loader.wheel,
        _subject(edge, target.file if target else edge.provider.package),
        severity="warning",
        cause=("order", edge.unfound_from),
        what=f"No search path leads to these libraries where {edge.unfound_from} is loaded first.",
        why=f"{edge.unfound_from} loads only if another import has loaded the libraries before.",
        fix=_FIX,
        commands=commands.search_path(graph, edge.loader),
    )


def _is_early(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether the package imports a module that loads an object before any package of others."""
    first = graph.wheel(edge.loader.wheel).imported_first
    return any(root.file in first for root in graph.roots(edge.loader))


def _too_early(edge: Edge, package: str) -> Finding:
    return provider_unreachable.finding(
        edge.loader.wheel,
        _subject(edge, package),
        severity="warning",
        cause=("early", package),
        what=f"Modules are imported before {package}, whose import loads libraries that they need.",
        why=f"The import fails, unless users import {package} first.",
        fix=f"Import {package} before these modules, or give the objects a search path to the libraries.",
    )


def _not_loaded(graph: LinkGraph, edge: Edge, obstacle: Obstacle) -> Finding:
    text = _OBSTACLES[obstacle.kind]
    place = layout.Folder.of(obstacle.folder)
    # most environments have a lib64, and paths for several Pythons are listed one by one
    usual = obstacle.kind == "folder" and not place.among_packages
    return provider_unreachable.finding(
        edge.loader.wheel,
        _subject(
            edge, edge.provider.package, "{path}", facts_of(path=obstacle.file or str(place)), obstacle.kind
        ),
        text=text._replace(severity="info") if usual else text,
        cause=("obstacle", obstacle.kind, usual),
        commands=commands.search_path(graph, edge.loader) if obstacle.kind == "folder" else (),
    )


_REFUSED = "The dynamic linker refuses them, and the import fails."
_OBSTACLES = {
    "no library": Text(
        "A file with the name of a NEEDED library is not a library, and comes first in the search paths.",
        "The dynamic linker stops at that file, and the import fails.",
        "Remove the file, or put the library in its place.",
        "error",
    ),
    "machine": Text(
        "Files for another machine or ABI have the names of NEEDED libraries, and come first in the search paths.",
        "The dynamic linker stops at those files, and the import fails.",
        "Remove the files, or put libraries for this machine in their places.",
        "error",
    ),
    "folder": Text(
        "Search paths lead to these libraries through folders that not every environment has.",
        "Where the folder does not exist, the import fails.",
        "Write the path without that folder, if it is the same in every environment.",
        "warning",
    ),
    "program": Text(
        "The files that have the names of these NEEDED libraries are programs.",
        _REFUSED,
        "Link them with -shared, and without -pie.",
        "error",
    ),
    "nodlopen": Text(
        "These NEEDED libraries were linked with -z nodlopen: they can be loaded only when a program starts.",
        _REFUSED,
        "Link them again without -z nodlopen.",
        "error",
    ),
    "nodefaultlib": Text(
        "Objects that were linked with -z nodefaultlib need libraries of the system.",
        "The dynamic linker does not look for them in the system's folders: the import works only if something "
        "else has loaded them before.",
        "Link the objects again without -z nodefaultlib.",
        "warning",
    ),
}

_MODULE = _OBSTACLES["nodlopen"]._replace(
    what="Python modules were linked with -z nodlopen: they can be loaded only when a program starts."
)


def _in_wheel_given(graph: LinkGraph, edge: Edge) -> Finding:
    target = edge.provider.object
    form = graph.wheel(edge.loader.wheel).form
    loaded = form == "folder" or may_be_loaded(graph, edge)
    misnamed = target is not None and target.name != edge.needed
    whose = "another wheel" if edge.provider.source != "wheel" else f"the {_THINGS.get(form, 'wheel')} itself"
    return provider_unreachable.finding(
        edge.loader.wheel,
        _subject(edge, target.file if target else ""),
        severity="warning" if loaded else "error",
        cause=("given", whose, edge.loader.is_program, misnamed),
        what=f"No search path leads to these libraries of {whose}.",
        why=_when_loaded(edge, form)
        if loaded
        else "The dynamic linker does not find the libraries, and the objects do not load.",
        fix=_FIX_NAME if misnamed else _FIX,
        commands=() if misnamed else commands.search_path(graph, edge.loader),
    )


def _when_loaded(edge: Edge, form: str) -> str:
    if form == "folder":
        return "They load only if something else has loaded the libraries before, or LD_LIBRARY_PATH leads to them."
    if edge.loader.is_program:
        return "The program starts only if LD_LIBRARY_PATH leads to the libraries."
    return "The import works only if something else has loaded the libraries before."


@rule(
    "GF203",
    "error",
    "a NEEDED library is looked for in a package that is not declared",
    what="Search paths lead to packages that the wheel does not declare.",
    why="pip does not install these packages with the wheel, and without them the import fails.",
    fix="Add the packages to Requires-Dist, always or in an extra.",
    applies_to=PACKAGES,
    contradicts="providers",
)
def provider_undeclared(graph: LinkGraph) -> Iterator[Finding]:
    """Find search paths that lead to a pip package, or to another wheel of the audit, that nothing requires.

    Installed packages of an environment are there without being required.
    """
    projects = {wheel.name: wheel.project for wheel in graph.wheels if wheel.form in ARCHIVES}
    for edge in graph.edges:
        target = edge.provider.object
        if edge.provider.source == "sibling" and target and edge.route and edge.route.is_path:
            project = projects.get(target.wheel, "")
            given = project and edge.loader.wheel in projects
            # openmm[cuda12] brings its plugins
            part = given and graph.requires(target.wheel, projects[edge.loader.wheel])
            if given and not part and not any(graph.requires(w, project) for w in _led_by(graph, edge)):
                yield _finding(graph, edge, project)
            continue
        provider = edge.provider
        if provider.source != "package" or provider.declared or not edge.route or edge.preload:
            continue
        if provider.other_major is None:  # else it is reported as GF204
            yield _finding(graph, edge, provider.package)


def _led_by(graph: LinkGraph, edge: Edge) -> set[str]:
    """Return the wheel whose search path led there; with an RPATH of others, also the wheels that need the loader."""
    others = graph.users(edge.loader) if edge.route and edge.route.via else ()
    return {edge.loader.wheel, *(user.loader.wheel for user in others)}


def _finding(graph: LinkGraph, edge: Edge, package: str) -> Finding:
    return provider_undeclared.finding(
        edge.loader.wheel,
        Subject(
            file=edge.loader.file,
            library=edge.needed,
            provider=package,
            routes=(edge.route,) if edge.route else (),
        ),
        commands=commands.with_requirement(graph.wheel(edge.loader.wheel), package),
    )


@rule(
    "GF204",
    "error",
    "the requirements bring another CUDA major than the one that is NEEDED",
    why="The dynamic linker does not find the NEEDED libraries, and the import fails.",
    fix="Require the packages of the CUDA major that the wheel was built with, and limit the "
    "versions of packages that bring another major.",
    applies_to=PACKAGES,
    contradicts="providers",
)
def provider_major(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges to a CUDA library if pip would install the one of another major."""
    for edge in graph.edges:
        if edge.provider.source != "package" or edge.provider.declared or edge.preload:
            continue
        if edge.loader.wheel in without_requirements(graph):
            continue  # reported as GF201
        other = edge.provider.other_major
        if all(known.extra for known in graph.declared[edge.loader.wheel].values()):
            both = filter(None, (other, implied_other_major(graph, edge)))
            other = min(both, key=lambda known: known.package, default=None)
        if other is None or _chosen_from(graph, edge):
            continue
        yield provider_major.finding(
            edge.loader.wheel,
            _subject(
                edge,
                detail="{requirement!r} brings {package}",
                facts=facts_of(requirement=other.line, package=other.package),
            ),
            cause=(other is edge.provider.other_major,),
            what="The requirements bring libraries of another CUDA major than the one that is NEEDED."
            if other is edge.provider.other_major
            else "Objects NEED libraries of a package that the wheel does not require, and that package brings "
            "another CUDA major.",
        )


def _chosen_from(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether an object is one of several for different CUDA versions, and another one matches."""
    family, stem = variant_family(edge.loader), sonames.stem(edge.needed)
    return bool(family) and any(
        other.provider.declared is not None
        and sonames.stem(other.needed) == stem
        and variant_family(other.loader) == family
        for other in graph.edges
        if other.loader.wheel == edge.loader.wheel
    )


@rule(
    "GF205",
    "warning",
    "a NEEDED library is found only because Python code loads it before",
    applies_to=PACKAGES,
    contradicts="providers",
    contradicts_from="info",
)
def provider_preloaded(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges without a route whose library some Python file of the wheel names as loaded."""
    for edge in graph.edges:
        if edge.route or edge.preload is None:
            continue
        known = edge.provider.declared
        lacking = known is None and not edge.preload.pathfinder and _is_brought_by_nothing(graph, edge)
        of_package = edge.provider.source == "package"
        if lacking and of_package and edge.loader.wheel in without_requirements(graph):
            continue  # reported as GF201
        provider, where, extra = "", "", ""
        if edge.provider.source == "wheel":
            where = "in this wheel"
        elif known is None and edge.provider.object is not None:
            provider = edge.provider.object.wheel
        elif known is None:
            where = "no requirement declares it"
        else:
            provider, extra = known.package, known.extra
            where = "in the extra [{extra}]" if extra else ""
        text = _LACKING if lacking else _FIRST
        function = "" if lacking else _left_to_users(edge.preload, edge.loader)
        if function:
            text = _UNCALLED
        yield provider_preloaded.finding(
            edge.loader.wheel,
            _subject(edge, provider, where, facts_of(extra=extra) if extra else ()),
            text=text.filled(file=edge.preload.file, function=function),
            cause=(lacking, edge.preload.file, function),
        )


def _is_brought_by_nothing(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether no requirement can bring a library: its package is known, or what all of them bring."""
    known = package_tables.listed() | package_tables.with_requirements()
    unknown = {each.requirement.name for each in graph.declared[edge.loader.wheel].values()} - known
    return edge.provider.source == "package" or (edge.provider.source == "nobody" and not unknown)


_LACKING = Text(
    "No search path leads to these libraries; {file} loads them first.",
    "No requirement brings them: the code finds them only where the user has installed them.",
    "Add the packages to Requires-Dist, always or in an extra.",
    "warning",
)
_FIRST = Text(
    "No search path leads to these libraries; {file} loads them first.",
    "The import works only after that code has run.",
    "None needed if that code runs before these objects are imported.",
    "info",
)
_UNCALLED = Text(
    "No search path leads to these libraries; {function} in {file} loads them, and nothing in the wheel calls it.",
    "These objects load only if the user's code has called it, or has imported a package that brings the libraries.",
    "Call {function} when the package is imported, or give the objects a RUNPATH to the folders of the packages.",
    "warning",
)


def _left_to_users(preload: Preload, loader: ElfObject) -> str:
    """Return the function that only users call to load libraries; "" if it is called, or loads the object, too."""
    stems = {loader.name, sonames.bare(loader.name)}
    left = preload.uncalled
    return f"{left.functions[0]}()" if left and not stems & left.names else ""
