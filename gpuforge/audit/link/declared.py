"""Which packages a wheel's Requires-Dist lines bring, also through extras and through packages that carry CUDA."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import canonicalize_name

from gpuforge.audit import policy, releases
from gpuforge.audit.model import WheelFacts
from gpuforge.audit.tables import load
from gpuforge.cuda import libraries
from gpuforge.cuda.suffix import without_suffix

_EXTRA = r"extra\s*==\s*[\"']([^\"']+)[\"']"
_USUAL = "x86_64"
_DEPTH = 6  # carriers bring carriers; no real chain is longer than three


class Requirement(NamedTuple):
    """A package that is required on one platform: `jax[cuda12] >=0.5; extra == "gpu"`."""

    name: str  # normalized
    extras: frozenset[str] = frozenset()  # "cuda12"
    versions: str = ""  # clauses: ">=0.5"
    extra: str = ""  # the extra of the wheel that it belongs to: "gpu"


class Declared(NamedTuple):
    """A package that is installed with the wheel."""

    package: str
    line: str  # the Requires-Dist line that brings it
    extra: str = ""  # only with this extra of the wheel
    loaded_by: str = ""  # the package whose import has its libraries in the process: "torch"
    cuda: int | None = None
    carries: tuple[str, ...] = ()  # SONAMEs of its own that are no CUDA library, and loaded with it
    lacks: tuple[str, ...] = ()  # SONAMEs that it has in other releases or for other machines


class Library(NamedTuple):
    """A SONAME that a package brings."""

    soname: str
    package: str
    folder: str  # relative to site-packages
    cuda: int | None
    needs: tuple[str, ...] = ()  # SONAMEs of other packages that come with it, by a path of its own


def packages(facts: WheelFacts, given: Mapping[str, WheelFacts]) -> Mapping[str, Declared]:
    """Resolve the wheel's requirements as far as the tables know; unconditional ones win over extras.

    What is among those `given`, in a version that is asked for, brings what it says itself.
    """
    found: dict[str, Declared] = {}
    if not facts.requires:
        return found
    machine = _environment(facts)["platform_machine"]
    for line in facts.requires:
        wanted = _evaluated(line, facts)
        for declared in _brought(wanted, line, wanted.extra, "", _DEPTH, machine, given) if wanted else ():
            known = found.get(declared.package)
            if known is None or (known.extra and not declared.extra):
                found[declared.package] = declared
    return found


def carriers() -> frozenset[str]:
    """Return the packages that bring CUDA libraries without an extra, and load them when they are imported."""
    return frozenset(row["package"] for row in _tables()["carrier"] if row["loads"] and not row.get("extra"))


def brought_by(package: str, given: Mapping[str, WheelFacts]) -> Mapping[str, Declared]:
    """Return what comes with a package: with the one `given`, else what pip would install with its newest release."""
    return {d.package: d for d in _brought(Requirement(package), package, "", "", _DEPTH, _USUAL, given)}


def by_project(wheels: Iterable[WheelFacts]) -> Mapping[str, WheelFacts]:
    """Return the wheels given by their projects, without those of which there are several."""
    found: dict[str, list[WheelFacts]] = {}
    for wheel in wheels:
        found.setdefault(wheel.project, []).append(wheel)
    return {project: held[0] for project, held in found.items() if project and len(held) == 1}


@cache
def candidates(soname: str) -> tuple[Library, ...]:
    """Return every package known to bring a library of this SONAME."""
    if policy.is_system(soname):  # and many wheels need nothing else: the tables are not read for them
        return ()
    toolkit = (
        Library(entry.soname, entry.package, entry.folder, entry.cuda)
        for entry in libraries.by_soname(soname)
        if entry.kind == "toolkit"
    )
    others = (
        Library(soname, row["package"], row["folder"], row.get("cuda"), tuple(row.get("needs", ())))
        for row in _tables()["library"]
        if soname in row["sonames"]
    )
    return (*toolkit, *others)


@cache
def carrying(soname: str) -> tuple[str, ...]:
    """Return the packages that have a library of their own by this SONAME loaded once they are imported.

    What is of a CUDA toolkit, of whatever version, is nobody's own but NVIDIA's.
    """
    if of_toolkit(soname):
        return ()
    rows = (row["package"] for row in _tables()["carrier"] if soname in row.get("carries", ()))
    return tuple(dict.fromkeys(rows))


@cache
def of_toolkit(soname: str) -> bool:
    """Say whether a SONAME is that of a CUDA library, of whatever version: libcudart.so.9.0 is, as libcudart.so.12."""
    stem = soname.partition(".so")[0]
    return any(entry.soname.partition(".so")[0] == stem for entry in _toolkit_libraries())


@cache
def listed() -> frozenset[str]:
    """Return the packages whose libraries are all known by name: what is not among them, they do not have."""
    return nvidias() | {row["package"] for row in _tables()["library"]}


@cache
def nvidias() -> frozenset[str]:
    """Return NVIDIA's own packages of libraries: those of the toolkits, and what is built upon them."""
    beside = (row["package"] for row in _tables()["library"] if row.get("nvidia"))
    return frozenset((*beside, *(entry.package for entry in _toolkit_libraries())))


@cache
def plain(package: str) -> str:
    """Return a package's name without the CUDA major that it is for: "libcudf" for libcudf-cu12."""
    return without_suffix(package)


@cache
def major(package: str) -> int | None:
    """Return the one CUDA major that a toolkit package is for; None for another package."""
    majors = {entry.cuda for entry in _toolkit_libraries() if entry.package == package}
    return majors.pop() if len(majors) == 1 else None


@cache
def stems(package: str) -> frozenset[str]:
    """Return the names of a toolkit package's libraries without "lib" and what follows: "cudnn", "cudnn_ops"."""
    sonames = (entry.soname for entry in _toolkit_libraries() if entry.package == package)
    return frozenset(soname.partition(".so")[0].removeprefix("lib") for soname in sonames)


def files(package: str) -> frozenset[str]:
    """Return the libraries of a toolkit package, each with its folder below site-packages."""
    return _files().get(package, frozenset())


@cache
def other_majors(soname: str) -> frozenset[str]:
    """Return the packages that bring the same library for other CUDA majors: cudart 12's is cudart 13's."""
    stem = soname.partition(".so")[0]
    own = {library.package for library in candidates(soname)}
    return frozenset(
        entry.package
        for entry in _toolkit_libraries()
        if entry.soname.partition(".so")[0] == stem and entry.package not in own
    )


def _evaluated(line: str, facts: WheelFacts) -> Requirement | None:
    """Read any requirement; None for one that is not for this platform, and for what is none."""
    try:
        parsed = Parsed(line)
    except InvalidRequirement:
        return None  # reported as GF704
    extra = _condition(parsed.marker, facts) if parsed.marker else ""
    return None if extra is None else _requirement(parsed, extra)


def _requirement(parsed: Parsed, extra: str = "") -> Requirement:
    return Requirement(canonicalize_name(parsed.name), frozenset(parsed.extras), str(parsed.specifier), extra)


def _condition(marker: Marker, facts: WheelFacts) -> str | None:
    """Return the extra that a marker hangs on, "" for none; None when it is not for this platform."""
    environment = _environment(facts)
    for extra in ("", *re.findall(_EXTRA, str(marker))):
        try:
            if marker.evaluate({**environment, "extra": extra}):
                return str(extra)
        except ValueError:  # what packaging has for names and comparisons that are none: nobody knows
            return ""
    return None


def _environment(facts: WheelFacts) -> dict[str, str]:
    machine = next(
        (m for p in facts.platforms for m in (_USUAL, "aarch64", "ppc64le") if p.endswith(m)), _USUAL
    )
    found = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    for tag in facts.file_tags:
        if match := re.match(r"cp(\d)(\d+)-", tag):
            version = f"{match[1]}.{match[2]}"
            found |= {"python_version": version, "python_full_version": f"{version}.0"}
    return found


def _brought(
    wanted: Requirement,
    line: str,
    extra: str,
    loader: str,
    depth: int,
    machine: str,
    given: Mapping[str, WheelFacts],
) -> Iterator[Declared]:
    own = given.get(wanted.name) if wanted.name in _bringing() else None
    exact = _of_release(wanted, own) if own else None
    rows = list(_rows(exact or wanted, machine))
    if any(row["loads"] for row in rows):
        loader = loader or wanted.name
    cuda = next((row.get("cuda") for row in rows), None)
    carries = tuple(soname for row in rows for soname in row.get("carries", ()))
    lacks = tuple(soname for row in rows for soname in row.get("lacks", ()))
    yield Declared(wanted.name, line, extra, loader, cuda, carries, lacks)
    if not depth:
        return
    of_library = _requires().get(wanted.name, ()) if wanted.name.startswith("nvidia-") else ()
    brings = tuple(text for row in rows for text in row["brings"])
    told = tuple(_required(own, exact.extras)) if own and exact and brings and own.requires else None
    known = (_requirement(Parsed(text)) for text in (*(brings if told is None else ()), *of_library))
    for more in (*(told or ()), *known):
        yield from _brought(more, line, extra, loader, depth - 1, machine, given)


def _of_release(wanted: Requirement, own: WheelFacts) -> Requirement | None:
    """Return a requirement of the very release that was given; None when another one is asked for."""
    version = own.version.partition("+")[0]
    return wanted._replace(versions=f"=={version}") if releases.allows(wanted.versions, version) else None


def _required(own: WheelFacts, extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield what a wheel requires and the tables know, always or with some of its extras."""
    wanted = {"", *map(canonicalize_name, extras)}
    for line in own.requires:
        found = _evaluated(line, own)
        if found and canonicalize_name(found.extra) in wanted and found.name in listed() | _bringing():
            yield found


@cache
def _bringing() -> frozenset[str]:
    """Return the packages that the tables know to bring others."""
    return frozenset(("cuda-toolkit", *(row["package"] for row in _tables()["carrier"])))


def _rows(wanted: Requirement, machine: str) -> Iterator[dict[str, Any]]:
    if wanted.name == "cuda-toolkit":
        row = _chosen(_tables()["toolkit"], wanted.versions)
        known = _tables()["toolkit-extras"]["packages"]
        if row:
            extras = known if "all" in wanted.extras else wanted.extras & known.keys()
            yield {**row, "loads": False, "brings": [known[e].format(row["suffix"]) for e in sorted(extras)]}
        return
    carriers = [
        row
        for row in _tables()["carrier"]
        if row["package"] == wanted.name and machine in row.get("machines", (machine,))
    ]
    for extra in ("", *sorted(wanted.extras)) if carriers else ():
        row = _chosen((row for row in carriers if row.get("extra", "") == extra), wanted.versions)
        if row:
            yield row


def _chosen(rows: Iterable[dict[str, Any]], wanted: str) -> dict[str, Any] | None:
    """Return the row that pip would end at: that of the newest release which these clauses allow."""
    held = list(rows)
    known = {version for row in held for version in row["known"]}
    for version in (*releases.newest_first(known | releases.named(wanted)), *releases.below(wanted)):
        if releases.allows(wanted, version):
            for row in held:
                if releases.allows(row["versions"], version):
                    return row
    return None


@cache
def _tables() -> dict[str, Any]:
    return load("carriers.toml")


@cache
def _toolkit_libraries() -> tuple[libraries.Library, ...]:
    majors = sorted({row["cuda"] for row in _tables()["toolkit"]})
    return tuple(entry for cuda in majors for entry in libraries.toolkit_libraries(cuda))


@cache
def _files() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for entry in _toolkit_libraries():
        found.setdefault(entry.package, set()).add(f"{entry.folder}/{entry.soname}")
    return {package: frozenset(names) for package, names in found.items()}


@cache
def _requires() -> Mapping[str, tuple[str, ...]]:
    return {entry.package: entry.requires for entry in _toolkit_libraries()}
