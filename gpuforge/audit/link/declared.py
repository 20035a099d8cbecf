"""Which packages are installed with a wheel: by its Requires-Dist lines, their extras, and packages that carry CUDA."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from packaging.requirements import Requirement as Parsed
from packaging.utils import canonicalize_name

from gpuforge.audit import version_clauses
from gpuforge.audit.link import package_tables
from gpuforge.audit.link.requirement import (
    USUAL_MACHINE,
    Omitted,
    Requirement,
    marker_environment,
    pythons,
    required_together,
    required_with,
    requirement,
)
from gpuforge.audit.model import WheelFacts
from gpuforge.cuda.carriers import Carrier, carriers, of_metapackage
from gpuforge.cuda.provided import METAPACKAGE
from gpuforge.grouping import grouped

_DEPTH = 6  # carriers require carriers; no real chain is longer than three


class Declared(NamedTuple):
    """A package that is installed with the wheel."""

    package: str
    line: str  # the Requires-Dist line that brings it
    requirement: Requirement  # that line, evaluated
    loaded_by: str = ""  # the package whose import loads its libraries: "torch"
    cuda: int | None = None
    carries: tuple[str, ...] = ()  # SONAMEs of its own libraries outside CUDA, which are loaded with it
    lacks: tuple[str, ...] = ()  # SONAMEs that it has in other releases or for other machines
    # SONAMEs of releases that its clauses do not allow; nothing is known of others
    unseen: tuple[str, ...] = ()
    via: tuple[str, ...] = ()  # the Requires-Dist lines of other given wheels that lead to `line`

    @property
    def extra(self) -> str:
        """The extra of the wheel that brings it; "" if it is always installed."""
        return self.requirement.extra

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that bring it, that of the wheel itself first."""
        return (*self.via, self.line)


def packages(facts: WheelFacts, given: Mapping[str, WheelFacts]) -> Mapping[str, Declared]:
    """Resolve the wheel's requirements as far as the tables know; unconditional ones win over extras.

    For a package among the wheels `given`, in an allowed version, its own METADATA is used instead of the tables.
    """
    found: dict[str, Declared] = {}
    if not facts.requires:
        return found
    machine = marker_environment(facts)["platform_machine"]
    omitted = _omitted(facts)
    for line, alone in required_together(facts):
        required = alone._replace(omitted=omitted(alone))
        for declared in _brought(required, line, required, "", _DEPTH, machine, given):
            known = found.get(declared.package)
            if known is None or (known.extra and not declared.extra):
                found[declared.package] = declared
            # pip installs a release that all of the lines allow
            elif bool(known.extra) == bool(declared.extra):
                lacks = tuple(soname for soname in known.lacks if soname in declared.lacks)
                better = declared if known.requirement.omitted and not declared.requirement.omitted else known
                unseen = (*known.unseen, *declared.unseen)
                found[declared.package] = better._replace(lacks=lacks, unseen=unseen)
    return found


def _omitted(facts: WheelFacts) -> Callable[[Requirement], Omitted]:
    """Return a function for where pip omits a requirement of a wheel; it returns "" if this is not judged."""
    every = pythons(facts.file_tags, facts.python)
    depends = not facts.neighbour and bool(facts.objects) and any("python" in line for line in facts.requires)
    found = required_with(facts) if depends else {}

    def omitted(required: Requirement) -> Omitted:
        if required.extra and canonicalize_name(required.extra) not in facts.extras:
            return "extra"
        return "python" if found.get((required.name, required.extra), every) < every else ""

    return omitted


def brought_by(package: str, given: Mapping[str, WheelFacts]) -> Mapping[str, Declared]:
    """Return the packages installed with a package: with the one `given`, else with its newest release."""
    named = Requirement(package)
    return {d.package: d for d in _brought(named, package, named, "", _DEPTH, USUAL_MACHINE, given)}


def by_project(wheels: Iterable[WheelFacts]) -> Mapping[str, WheelFacts]:
    """Return the given wheels by project, without projects that have several wheels."""
    found = grouped((wheel.project, wheel) for wheel in wheels)
    return {project: same[0] for project, same in found.items() if project and len(same) == 1}


def _brought(
    required: Requirement,
    line: str,
    of_line: Requirement,
    loader: str,
    depth: int,
    machine: str,
    given: Mapping[str, WheelFacts],
) -> Iterator[Declared]:
    own = given.get(required.name) if required.name in package_tables.with_requirements() else None
    exact = _of_release(required, own) if own else None
    rows = list(_rows(exact or required, machine))
    if any(row.loads for row in rows):
        loader = loader or required.name
    cuda = next((row.cuda for row in rows), None)
    carries = tuple(soname for row in rows for soname in row.carries)
    lacks = tuple(soname for row in rows for soname in row.lacks)
    unseen: tuple[str, ...] = ()
    if required is of_line or required.versions:  # the version of a package from the tables is not known
        versions = (exact or required).versions
        lacks += package_tables.of_other_releases(required.name, versions)
        unseen = package_tables.of_unseen_releases(required.name, versions)
    yield Declared(required.name, line, of_line, loader, cuda, carries, lacks, unseen)
    if not depth:
        return
    of_library = package_tables.requirements().get(required.name, ())
    brings = tuple(text for row in rows for text in row.brings)
    own_requires = tuple(_required(own, exact.extras)) if own and exact and brings and own.requires else None
    known = (requirement(Parsed(text)) for text in (*(brings if own_requires is None else ()), *of_library))
    for more in (*(own_requires or ()), *known):
        yield from _brought(more, line, of_line, loader, depth - 1, machine, given)


def _of_release(required: Requirement, own: WheelFacts) -> Requirement | None:
    """Return a requirement of exactly the given release; None if the clauses do not allow it."""
    version = own.version.partition("+")[0]
    return (
        required._replace(versions=f"=={version}")
        if version_clauses.allows(required.versions, version)
        else None
    )


def _required(own: WheelFacts, extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements of a wheel that the tables know, with some of its extras."""
    chosen = {"", *map(canonicalize_name, extras)}
    known = package_tables.listed() | package_tables.with_requirements()
    for _, found in required_together(own):
        if canonicalize_name(found.extra) in chosen and found.name in known:
            yield found


def _rows(required: Requirement, machine: str) -> Iterator[Carrier]:
    if required.name == METAPACKAGE:
        groups = [of_metapackage(required.extras)]
    else:
        own = [row for row in carriers() if row.package == required.name and row.is_for(machine)]
        extras = ("", *sorted(required.extras)) if own else ()
        groups = [tuple(row for row in own if row.extra == extra) for extra in extras]
    yield from filter(None, (_chosen(group, required.versions) for group in groups))


def _chosen(rows: Sequence[Carrier], clauses: str) -> Carrier | None:
    """Return the row of the release that pip would choose: the newest one that these clauses allow."""
    known = {version for row in rows for version in row.known}
    newest_first = version_clauses.newest_first(known | version_clauses.named(clauses))
    for version in (*newest_first, *version_clauses.below(clauses)):
        if version_clauses.allows(clauses, version):
            for row in rows:
                if version_clauses.allows(row.versions, version):
                    return row
    return None
