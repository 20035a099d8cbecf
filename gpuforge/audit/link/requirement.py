"""What pip installs with a wheel: its Requires-Dist lines, evaluated for the platform of its file name."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from gpuforge.audit.model import WheelFacts
from gpuforge.cpython import STABLE_ABIS, CPython
from gpuforge.requirements import parse_requirement
from gpuforge.wheel import metadata

USUAL_MACHINE = "x86_64"
_PLATFORM = r"(?:many|musl)?(linux|macosx|win)[\d_]*(?<=[\d_])([a-z]\w+|$)"
_LAST = 30  # the last minor of Python 3 that wheels for all later ones are checked with


# where pip does not install a requirement: with some of the wheel's Pythons, or nowhere, because METADATA has no
# Provides-Extra for the extra (uv installs it)
Omitted = Literal["", "python", "extra"]


class Requirement(NamedTuple):
    """A package that is required on one platform: `jax[cuda12] >=0.5; extra == "gpu"`."""

    name: str  # normalized
    extras: frozenset[str] = frozenset()  # "cuda12"
    versions: str = ""  # clauses: ">=0.5"
    extra: str = ""  # the extra of the wheel that it belongs to: "gpu"
    omitted: Omitted = ""


def required_together(facts: WheelFacts, python: str = "") -> Iterator[tuple[str, Requirement]]:
    """Yield the Requires-Dist lines for this platform, each with the clauses of all that pip obeys together with it.

    These are the lines of the same project and extra, and those of the project without an extra. Lines that are invalid
    or not for this platform or this Python are left out.
    """
    lines = {line: evaluated(line, facts, python) for line in facts.requires}
    clauses: dict[tuple[str, str], dict[str, None]] = {}
    for one in filter(None, lines.values()):
        clauses.setdefault((one.name, one.extra), {})[one.versions] = None
    for line, required in lines.items():
        if required:
            joined = {**clauses[required.name, required.extra], **clauses.get((required.name, ""), {})}
            yield line, required._replace(versions=",".join(filter(None, joined)))


def evaluated(line: str, facts: WheelFacts, python: str = "") -> Requirement | None:
    """Read any requirement; None if it is not for this platform or this Python, or is invalid."""
    try:
        parsed = parse_requirement(line)
    except InvalidRequirement:
        return None  # reported as GF704
    extra = metadata.extra_of(parsed.marker, marker_environment(facts, python)) if parsed.marker else ""
    return None if extra is None else requirement(parsed, extra)


def required_with(facts: WheelFacts) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the Pythons with which each package is required, with the extra that it belongs to; see `pythons`."""
    every = pythons(facts.file_tags, facts.python)
    found: dict[tuple[str, str], frozenset[str]] = {}
    for line in facts.requires:
        try:
            parsed = parse_requirement(line)
        except InvalidRequirement:
            continue  # reported as GF704
        for extra, some in _extras_with(parsed, facts, every).items():
            place = canonicalize_name(parsed.name), extra
            found[place] = found.get(place, frozenset()) | some
    return found


def _extras_with(parsed: Parsed, facts: WheelFacts, every: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """Return the Pythons with which a requirement holds, by the extra that it needs."""
    if "python" not in str(parsed.marker):
        extra = metadata.extra_of(parsed.marker, marker_environment(facts)) if parsed.marker else ""
        return {} if extra is None else {extra: every}
    found: dict[str, frozenset[str]] = {}
    for python in every:
        here = marker_environment(facts, python.rpartition(".")[0]) | {"python_full_version": python}
        if (extra := metadata.extra_of(parsed.marker, here)) is not None:
            found[extra] = found.get(extra, frozenset()) | {python}
    return found


@cache
def pythons(tags: tuple[Tag, ...], requires: str) -> frozenset[str]:
    """Return the Pythons that a wheel is for: of each minor the first and a late release, "3.11.0" and "3.11.99".

    `requires` is its Requires-Python.
    """
    minors: set[int] = set()
    for tag in tags:
        if match := re.fullmatch(r"(cp|py)3(\d*)", tag.interpreter):
            first = int(match[2] or 0)
            alone = match[1] == "cp" and tag.abi not in STABLE_ABIS
            minors.update((first,) if alone else range(first, _LAST + 1))
    found = [f"3.{minor}.{patch}" for minor in minors for patch in (0, 99)]
    try:
        return frozenset(SpecifierSet(requires).filter(found))
    except InvalidSpecifier:  # reported as GF704
        return frozenset(found)


def requirement(parsed: Parsed, extra: str = "") -> Requirement:
    """Return a requirement that packaging has parsed; `extra` is the extra of the wheel that it belongs to."""
    return Requirement(canonicalize_name(parsed.name), frozenset(parsed.extras), str(parsed.specifier), extra)


def marker_environment(facts: WheelFacts, python: str = "") -> dict[str, str]:
    """Return the environment of markers for a wheel, from its file name and, if given, a `python`."""
    pythons = [match for tag in facts.file_tags if (match := re.fullmatch(r"cp(\d)(\d+)", tag.interpreter))]
    tagged = f"{pythons[-1][1]}.{pythons[-1][2]}" if pythons else ""
    return metadata.marker_environment(facts.machine or USUAL_MACHINE, python or tagged)


def can_coexist(one: WheelFacts, other: WheelFacts) -> bool:
    """Return whether one environment can have both wheels: by the processors and the Pythons of their tags."""
    return _fit(one.file_tags, other.file_tags)


@lru_cache(maxsize=4096)  # thousands of wheels, which have few different tags, are compared with each other
def _fit(one: tuple[Tag, ...], other: tuple[Tag, ...]) -> bool:
    pairs = (_machines(one), _machines(other)), (_pythons_of(one), _pythons_of(other))
    return not any(all(pair) and pair[0].isdisjoint(pair[1]) for pair in pairs)


def _machines(tags: tuple[Tag, ...]) -> set[str]:
    """Return the systems and processors that a wheel is for, "linux x86_64"; empty if it is for any."""
    found = (re.fullmatch(_PLATFORM, tag.platform) for tag in tags)
    return {f"{match[1]} {match[2]}" for match in found if match}


def _pythons_of(tags: tuple[Tag, ...]) -> set[str]:
    """Return the Pythons that a wheel is for; empty if it is for many."""
    abis = {tag.abi for tag in tags}
    return abis if all(map(CPython.of_tag, abis)) else set()
