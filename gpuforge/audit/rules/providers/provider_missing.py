"""GF201: NEEDED libraries without a provider."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import NamedTuple

from packaging.utils import canonicalize_name

from gpuforge.audit import layout, policy
from gpuforge.audit.findings import Finding, Severity, Subject
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules.providers.unrequired import implied, without_requirements
from gpuforge.audit.rules.rule import PACKAGES, Rule
from gpuforge.audit.rules.variants import is_for_other_framework
from gpuforge.cuda import libraries
from gpuforge.cuda.suffix import is_of_nvidia, suffix_of, without_suffix


def check(graph: LinkGraph) -> Iterator[Finding]:
    """Find edges that lead to no wheel, no declared package and nothing of the system.

    With `linkage = "system"` in the manifest, CUDA's own libraries belong to the machine.
    """
    folders = cache(partial(_folders, graph))
    machines = graph.expectation is not None and graph.expectation.linkage == "system"
    lost = [e for e in graph.edges if not (e.route or e.preload)]
    searched: dict[tuple[str, str], set[str]] = {}  # one object of a wheel may search for all
    for edge in (e for e in lost if e.provider.source == "nobody"):
        searched.setdefault((edge.loader.wheel, edge.needed), set()).update(
            _looked_for_in(graph, edge, folders)
        )
    for edge in lost:
        if machines and libraries.is_toolkit(edge.needed):
            continue
        if edge.provider.source == "package" and edge.provider.declared is None:
            if not package_tables.other_majors(edge.needed) & graph.declared[edge.loader.wheel].keys():
                yield _missing(graph, edge)
        elif edge.provider.source == "nobody":
            yield _unknown(graph, edge, _named(searched[edge.loader.wheel, edge.needed]))
    for edge in graph.edges:
        opened = edge.preload is not None and not edge.preload.pathfinder and not edge.route
        of_package = edge.provider.source == "package"
        if opened and of_package and edge.loader.wheel in without_requirements(graph):
            yield _missing(graph, edge)


RULE = Rule(
    code="GF201",
    severity="error",
    title="a NEEDED library has no provider",
    check=check,
    applies_to=PACKAGES,
    contradicts="providers",
)


def _named(packages: set[str]) -> list[str]:
    return sorted(packages - {""}) or sorted(packages)


_NOTHING_REQUIRED = "The wheel has no Requires-Dist line, and nothing provides these libraries."
_NOTHING_PROVIDES = (
    "Nothing provides these libraries: they are not in the wheel, and no Requires-Dist line brings them."
)


def _missing(graph: LinkGraph, edge: Edge) -> Finding:
    bare = edge.loader.wheel in without_requirements(graph)
    others = _unknown_carriers(graph, edge)
    optional = is_for_other_framework(graph, edge.loader)
    known = graph.declared[edge.loader.wheel].get(edge.provider.package)
    lacking = known if known and edge.needed in known.lacks else None
    return RULE.finding(
        edge.loader.wheel,
        severity="warning" if others or optional else "error",
        files=(edge.loader.file,),
        subjects=(
            Subject(
                library=edge.needed,
                provider=edge.provider.package,
                detail=_otherwise_loaded(graph, edge) if bare else "",
                needed_by=(edge.loader.file,),
            ),
        ),
        what=(_NOTHING_REQUIRED if bare else _NOTHING_PROVIDES)
        + (f" {', '.join(others)} may bring them: its requirements are unknown." if others else "")
        + (f" {lacking.line!r} does not have them for this machine." if lacking else "")
        + (" By their names, these objects are only for users who have that framework." if optional else ""),
        why="The import fails unless the user has installed the libraries some other way.",
        fix="Add the packages to Requires-Dist, and give the objects a RUNPATH to their folders. "
        'gpuforge build with linkage = "pip" does both.',
    )


def _otherwise_loaded(graph: LinkGraph, edge: Edge) -> str:
    """Say what loads a library that no requirement brings, or which other one a package brings that is needed, too."""
    if edge.preload:
        return f"{edge.preload.file} opens it where it finds it"
    brought = implied(graph, edge)
    other = next(
        (brought[p] for p in sorted(package_tables.other_majors(edge.needed) & brought.keys())), None
    )
    return f"{other.line} brings {other.package}" if other else ""


def _unknown_carriers(graph: LinkGraph, edge: Edge) -> list[str]:
    """Return required packages for a CUDA major whose own requirements are in no table; NVIDIA's bring no others."""
    known = graph.declared[edge.loader.wheel]
    return [
        package
        for package, d in known.items()
        if suffix_of(package)
        and not is_of_nvidia(package)
        and package not in package_tables.nvidias()
        and sum(o.line == d.line for o in known.values()) == 1
    ]


class _Text(NamedTuple):
    """What is reported of a library that nothing is known to provide."""

    severity: Severity
    what: str
    why: str
    fix: str


_NOT_IN_WHEEL = "These libraries are not in the wheel"
_FAILS = "The import fails unless the user has installed the libraries some other way."


def _unknown(graph: LinkGraph, edge: Edge, there: list[str]) -> Finding:
    note = "a compiler's runtime" if libraries.compiler_runtime(edge.needed) else ""
    text = _text(graph, edge, there)
    return RULE.finding(
        edge.loader.wheel,
        severity=text.severity,
        files=(edge.loader.file,),
        subjects=(Subject(library=edge.needed, detail=note, needed_by=(edge.loader.file,)),),
        what=text.what,
        why=text.why,
        fix=text.fix,
    )


def _text(graph: LinkGraph, edge: Edge, there: list[str]) -> _Text:
    if where := _may_be(graph, edge, there):
        fix = "Audit the wheel together with that package: gpuforge audit FILE.whl OTHER.whl"
        return _Text("info", f"{_NOT_IN_WHEEL}, and gpuforge does not know who has them.", where, fix)
    if others := _loading(graph, edge):
        what = f"{_NOT_IN_WHEEL}, and no requirement brings them; {' or '.join(others)} would."
        return _Text(
            "warning", what, _FAILS, "Add one of these packages to Requires-Dist, always or in an extra."
        )
    if package_tables.of_toolkit(edge.needed):
        unsure = is_for_other_framework(graph, edge.loader) or _unknown_carriers(graph, edge)
        return _Text(
            "warning" if unsure else "error",
            "Neither the wheel nor any package of NVIDIA on PyPI has these versions of CUDA libraries.",
            "The import works only where that CUDA toolkit is installed in a folder that the linker searches.",
            "Build with a toolkit whose libraries are on PyPI (CUDA 11, 12 or 13), or link them statically.",
        )
    wheel = graph.wheel(edge.loader.wheel)
    family = "musllinux" if policy.on_musl(edge.loader, wheel.platforms) else "manylinux"
    return _Text(
        "warning",
        f"{_NOT_IN_WHEEL}, the {family} policies do not promise them, and no known package brings them.",
        _FAILS,
        "Graft them (auditwheel repair), link them statically, or document what users have to install.",
    )


def _loading(graph: LinkGraph, edge: Edge) -> list[str]:
    """Return the packages, not required, that load this library when they are imported."""
    if libraries.compiler_runtime(edge.needed):
        return []
    known = graph.declared[edge.loader.wheel]
    return [package for package in package_tables.carrying(edge.needed) if package not in known]


def _may_be(graph: LinkGraph, edge: Edge, there: list[str]) -> str:
    """Say which required package may have an unknown library; "" if nothing indicates one."""
    if there and all(there):
        return f"Search paths lead to folders of {', '.join(there)}, which the wheel requires."
    if parts := _released_with(graph, edge):
        return f"{', '.join(parts)}, required in the same version, may have them."
    carrying = package_tables.carrying(edge.needed)
    # tensorrt brings tensorrt-cu12-libs, or that of another CUDA
    for parent in graph.declared[edge.loader.wheel]:
        if named := [package for package in carrying if package.startswith(f"{parent}-")]:
            return f"{parent}, which the wheel requires, may bring {' or '.join(named)}, which has them."
    if there:
        return "Search paths lead to the environment's lib folder, where a required package may put them."
    return ""


def _folders(graph: LinkGraph, name: str) -> frozenset[str]:
    """Return the folders that a wheel has files in, as they are installed."""
    wheel = graph.wheel(name)
    return frozenset(posixpath.dirname(layout.install_path(member)) for member in wheel.members)


def _looked_for_in(graph: LinkGraph, edge: Edge, installed: Callable[[str], Collection[str]]) -> list[str]:
    """Return the required packages with the name of a folder that the object searches and that is not in the wheel.

    PyQt5 searches `PyQt5/Qt5/lib`, and requires PyQt5-Qt5; `libx` is that of libx-cu12. What was given, too, has been
    searched. "" stands for such as Intel's, where the object searches the environment's own lib folder: they install
    their libraries there.
    """
    given = {wheel.project for wheel in graph.wheels}
    own = installed(edge.loader.wheel)
    site = f"{layout.SITE}/"
    users = (user.loader for user in graph.users(edge.loader))  # whose RPATHs hold for it, too
    folders = [e.folder for e in layout.search(edge.loader, users)]
    parts = [f.removeprefix(site).split("/") for f in folders if f.startswith(site) and f not in own]
    empty = {canonicalize_name("-".join(p[:count])) for p in parts for count in range(1, len(p) + 1)}
    known = graph.declared[edge.loader.wheel]
    beside = f"{layout.ENVIRONMENT}/lib" in folders and any(
        package_tables.is_in_environment(d.package) and not d.extra for d in known.values()
    )
    others = known.keys() - given - package_tables.nvidias()
    called = (p for p in others if {p, without_suffix(p)} & empty)
    return sorted(called) or [""] * beside


def _released_with(graph: LinkGraph, edge: Edge) -> list[str]:
    """Return the required packages that are parts of the same release: pinned to the wheel's own version."""
    wheel = graph.wheel(edge.loader.wheel)
    if edge.loader.program or any(w.project in graph.declared[wheel.name] for w in graph.wheels):
        return []
    pin = re.compile(rf"[\w.-]+\s*\(?==\s*{re.escape(wheel.version)}\)?\s*(;.*)?")
    known = graph.declared[wheel.name].values()
    pinned = (d.package for d in known if wheel.version and pin.fullmatch(d.line))
    return [package for package in pinned if package not in package_tables.listed()]
