"""GF201: NEEDED libraries without a provider."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from gpuforge.audit import policy
from gpuforge.audit.findings import Facts, Finding, Severity, Subject, facts_of
from gpuforge.audit.form import PACKAGES
from gpuforge.audit.link.edges import Edge
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.rules import search_path, wheel_file
from gpuforge.audit.rules.loading import may_be_imported
from gpuforge.audit.rules.providers.clues import Clue, clues
from gpuforge.audit.rules.providers.unrequired import implied_other_major, without_requirements
from gpuforge.audit.rules.rule import Rule
from gpuforge.audit.rules.variants import is_for_other_framework, other_framework
from gpuforge.cuda import carriers, libraries, sonames
from gpuforge.cuda.suffix import is_of_nvidia, suffix_of


def check(graph: LinkGraph) -> Iterator[Finding]:
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


RULE = Rule(
    code="GF201",
    severity="error",
    title="a NEEDED library has no provider",
    check=check,
    applies_to=PACKAGES,
    contradicts="providers",
)


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
    imported = may_be_imported(graph.wheel(edge.loader.wheel), graph.roots(edge.loader))
    detail, facts = _otherwise_loaded(graph, edge) if bare else ("", ())
    return RULE.finding(
        edge.loader.wheel,
        severity="warning" if others or framework else "error",
        files=(edge.loader.file,),
        subjects=(
            Subject(
                library=edge.needed,
                provider=edge.provider.package,
                detail=detail,
                facts=facts,
                needed_by=(edge.loader.file,),
            ),
        ),
        cause=(bare, *others, lacking.line if lacking else "", framework, imported),
        what=(_NOTHING_REQUIRED if bare else _NOTHING_PROVIDES)
        + (f" {', '.join(others)} may bring them: its requirements are unknown." if others else "")
        + (f" The package that pip installs for {lacking.line!r} does not have them." if lacking else "")
        + (
            f" Their names suggest that these objects are for users of {framework} only." if framework else ""
        ),
        why=_FAILS if imported else _PLUGIN_FAILS,
        fix="Add the packages to Requires-Dist, and give the objects a RUNPATH to their folders. gpuforge build does "
        'both: always for torch, and with linkage = "pip" for CUDA\'s packages.',
        commands=(
            *wheel_file.with_requirement(graph.wheel(edge.loader.wheel), edge.provider.package),
            *search_path.commands(graph, edge.loader),
        ),
    )


def _unproved(edge: Edge) -> Finding:
    """Return the finding of a library whose package is declared, but may not bring it."""
    match edge.provider.unproved:
        case "extra":
            what = "METADATA has no Provides-Extra line for the extras that bring these libraries."
            why = "pip installs nothing for such an extra, and the import fails; uv installs its packages."
            fix = (
                "Add the line Provides-Extra: NAME, as build backends do for [project.optional-dependencies]."
            )
        case "python":
            what = "pip installs the packages of these libraries for only some of the Pythons that the wheel is for."
            why = "With the other Pythons the import fails."
            fix = "Require the packages for all of these Pythons, or state the right ones in Requires-Python."
        case "name":
            what = "The names of these packages suggest that they have the libraries; no list of their files is known."
            why = "The import fails if the package does not have them."
            fix = "Audit the wheel together with that package: gpuforge audit FILE.whl OTHER.whl"
        case _:
            what = "No release that the requirement allows is known to have these libraries."
            why = "The import fails if the release that pip installs does not have them."
            fix = "Require a release of the package that has the libraries."
    declared = edge.provider.declared
    return RULE.finding(
        edge.loader.wheel,
        severity="info" if edge.provider.unproved in {"release", "name"} else "warning",
        files=(edge.loader.file,),
        subjects=(
            Subject(
                library=edge.needed,
                provider=edge.provider.package,
                detail="{requirement!r}" if declared else "",
                facts=facts_of(requirement=declared.line) if declared else (),
                needed_by=(edge.loader.file,),
            ),
        ),
        cause=(edge.provider.unproved,),
        what=what,
        why=why,
        fix=fix,
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
    family = ""
    imported = may_be_imported(graph.wheel(edge.loader.wheel), graph.roots(edge.loader))
    fails = _FAILS if imported else _PLUGIN_FAILS
    alternative = _is_alternative(graph, edge)
    match clue.kind:
        case "import":
            what = f"{_NOT_IN_WHEEL}, and no requirement brings them; {' or '.join(clue.packages)} would."
            why, fix = fails, "Add one of these packages to Requires-Dist, always or in an extra."
        case "toolkit":
            unsure = is_for_other_framework(graph, edge.loader) or _unknown_carriers(graph, edge)
            severity = "warning" if unsure else RULE.severity
            what = "Neither the wheel nor any package of NVIDIA on PyPI has these versions of CUDA libraries."
            why = "The import works only on machines where the dynamic linker finds that CUDA toolkit."
            fix = "Build with a toolkit whose libraries are on PyPI (CUDA 11, 12 or 13), or link them statically."
        case "none":
            platforms = graph.wheel(edge.loader.wheel).platforms
            family = "musllinux" if "musl" in policy.systems_of(edge.loader, platforms) else "manylinux"
            what = f"{_NOT_IN_WHEEL}, the {family} policies do not promise them, and no known package brings them."
            why = _ONE_OF if alternative else fails
            fix = "Graft them (auditwheel repair), link them statically, or document what users have to install."
        case _:
            severity = "info"
            what, why = f"{_NOT_IN_WHEEL}, and gpuforge does not know which package has them.", _where(clue)
            fix = "Audit the wheel together with that package: gpuforge audit FILE.whl OTHER.whl"
    note = "a compiler's runtime" if clue.of_compiler else ""
    return RULE.finding(
        edge.loader.wheel,
        severity=severity,
        files=(edge.loader.file,),
        subjects=(Subject(library=edge.needed, detail=note, needed_by=(edge.loader.file,)),),
        cause=(clue.kind, clue.packages, clue.parent, family, imported, alternative),
        what=what,
        why=why,
        fix=fix,
    )


def _is_alternative(graph: LinkGraph, edge: Edge) -> bool:
    """Return whether an object is one of several for different versions of a library: libx_ffmpeg4.so, libx_ffmpeg5.so.

    Code loads the one whose library the user has installed.
    """
    return len(_versions(graph)[_family(edge)]) > 1


@lru_cache(maxsize=1)
def _versions(graph: LinkGraph) -> Mapping[tuple[str, str, str], set[str]]:
    """Return the names of unknown libraries, by what their versions and objects have in common."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for edge in graph.edges:
        if edge.reason == "unknown":
            found.setdefault(_family(edge), set()).add(edge.needed)
    return found


def _family(edge: Edge) -> tuple[str, str, str]:
    return edge.loader.wheel, _without_numbers(edge.loader.file), sonames.stem(edge.needed)


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "#", name)


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
