"""Checks whether pip installs a wheel beside packages: by tags, Requires-Python and Requires-Dist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging import tags
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gpuforge.audit import version_clauses
from gpuforge.audit.link.requirement import Requirement, can_coexist, required_together
from gpuforge.audit.model import WheelFacts
from gpuforge.cpython import CPython
from gpuforge.requirements import Release


def is_installable(
    wheel: WheelFacts, beside: Iterable[WheelFacts], available: Sequence[Release], python: str
) -> bool:
    """Return whether pip installs a wheel beside packages, and finds each package that it requires among releases.

    `python` is the minor of the environment's Python, "3.11"; "" if it is not known.
    """
    return (
        (not python or _runs_on(wheel, python))
        and all(can_coexist(wheel, other) for other in beside)
        and all(_is_met(required, available) for _, required in required_together(wheel, python))
    )


def _runs_on(wheel: WheelFacts, python: str) -> bool:
    """Return whether a wheel is for every patch release of a CPython."""
    try:
        allowed = SpecifierSet(wheel.python)
    except InvalidSpecifier:
        return False
    if not all(allowed.contains(f"{python}.{patch}") for patch in (0, 99)):
        return False
    version = CPython.parse(python)
    numbers = version.major, version.minor
    abis = (version.tag, f"{version.tag}t", "abi3", "none")
    fitting = {
        (tag.interpreter, tag.abi)
        for tag in (
            *tags.cpython_tags(numbers, abis, ["any"]),
            *tags.compatible_tags(numbers, version.tag, ["any"]),
        )
    }
    return not wheel.file_tags or any((tag.interpreter, tag.abi) in fitting for tag in wheel.file_tags)


def _is_met(required: Requirement, available: Iterable[Release]) -> bool:
    """Return whether one of the releases meets a requirement; one of an extra need not be met."""
    return bool(required.extra) or any(
        other.project == required.name and version_clauses.allows(required.versions, other.version)
        for other in available
    )
