"""Requires-Dist lines of a wheel, evaluated for the platform in its file name."""

import re
from typing import NamedTuple

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import canonicalize_name

from gpuforge.audit.model import WheelFacts
from gpuforge.wheel import marker

USUAL_MACHINE = "x86_64"


class Requirement(NamedTuple):
    """A package that is required on one platform: `jax[cuda12] >=0.5; extra == "gpu"`."""

    name: str  # normalized
    extras: frozenset[str] = frozenset()  # "cuda12"
    versions: str = ""  # clauses: ">=0.5"
    extra: str = ""  # the extra of the wheel that it belongs to: "gpu"


def evaluated(line: str, facts: WheelFacts, python: str = "") -> Requirement | None:
    """Read any requirement; None for one that is not for this platform, or this Python, and for invalid text."""
    try:
        parsed = parse(line)
    except InvalidRequirement:
        return None  # reported as GF704
    extra = marker.extra_of(parsed.marker, environment(facts, python)) if parsed.marker else ""
    return None if extra is None else requirement(parsed, extra)


def parse(line: str) -> Parsed:
    """Parse a Requires-Dist line; raises InvalidRequirement."""
    try:
        return Parsed(line)
    except RecursionError as error:
        raise InvalidRequirement("its parentheses are nested too deeply") from error


def requirement(parsed: Parsed, extra: str = "") -> Requirement:
    """Return a requirement that packaging has parsed; `extra` is the extra of the wheel that it belongs to."""
    return Requirement(canonicalize_name(parsed.name), frozenset(parsed.extras), str(parsed.specifier), extra)


def environment(facts: WheelFacts, python: str = "") -> dict[str, str]:
    """Return the environment of markers, as far as the file name gives it, for a `python` that is known or its own."""
    pythons = [match for tag in facts.file_tags if (match := re.fullmatch(r"cp(\d)(\d+)", tag.interpreter))]
    tagged = f"{pythons[-1][1]}.{pythons[-1][2]}" if pythons else ""
    return marker.environment(facts.machine or USUAL_MACHINE, python or tagged)
