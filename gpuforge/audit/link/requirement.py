"""Requires-Dist lines of a wheel, evaluated for the platform in its file name."""

import re
from typing import NamedTuple

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import canonicalize_name

from gpuforge.audit.model import WheelFacts
from gpuforge.wheel import metadata

USUAL_MACHINE = "x86_64"


class Requirement(NamedTuple):
    """A package that is required on one platform: `jax[cuda12] >=0.5; extra == "gpu"`."""

    name: str  # normalized
    extras: frozenset[str] = frozenset()  # "cuda12"
    versions: str = ""  # clauses: ">=0.5"
    extra: str = ""  # the extra of the wheel that it belongs to: "gpu"


def evaluated(line: str, facts: WheelFacts) -> Requirement | None:
    """Read any requirement; None for one that is not for this platform, and for invalid text."""
    try:
        parsed = parse(line)
    except InvalidRequirement:
        return None  # reported as GF704
    extra = _condition(parsed.marker, facts) if parsed.marker else ""
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


def _condition(marker: Marker, facts: WheelFacts) -> str | None:
    """Return the extra that a marker hangs on, "" for none; None when it is not for this platform."""
    known = environment(facts)
    for extra in ("", *metadata.extras_in(str(marker))):
        try:
            if marker.evaluate({**known, "extra": extra}):
                return str(extra)
        except (
            ValueError,
            KeyError,
        ):  # what packaging has for names and comparisons that are none: nobody knows
            return ""
    return None


def environment(facts: WheelFacts) -> dict[str, str]:
    """Return the environment of markers, as far as the file name gives it."""
    found = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": facts.machine or USUAL_MACHINE,
    }
    for tag in facts.file_tags:
        if match := re.match(r"cp(\d)(\d+)-", tag):
            version = f"{match[1]}.{match[2]}"
            found |= {"python_version": version, "python_full_version": f"{version}.0"}
    return found
