"""The requirements that a wheel declares for the libraries it is linked with."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.cuda import provided
from gpuforge.cuda.carriers import Carried
from gpuforge.cuda.provided import Floor
from gpuforge.cuda.suffix import major_of_extra
from gpuforge.cuda.version import just_below
from gpuforge.errors import ActionError
from gpuforge.wheel import metadata


def requirement_for(distribution: str, linked: str) -> Requirement:
    """Return the requirement for a library that a wheel was linked with at version `linked`.

    The lower bound is its major.minor, as symbols of link time must be there at run time. The upper bound is the next
    major version, which has another SONAME: "nvidia-cufft" at "12.0.0.61" gives "nvidia-cufft<13,>=12.0".
    """
    try:
        version = Version(linked)
    except InvalidVersion as error:
        raise ActionError.of(
            f"the toolkit reports version {linked!r} for {distribution}: not a valid version",
            hint="build again with a toolkit that gpuforge fetches",
        ) from error
    return Requirement(f"{distribution}>={version.major}.{version.minor},<{version.major + 1}")


def require(
    text: bytes,
    linked: Mapping[str, str | None],
    *,
    extra: str | None = None,
    proved: Mapping[str, Bounds] | None = None,
) -> tuple[bytes, list[str]]:
    """Add a Requires-Dist for each distribution of `linked` (name → version at link time, None if unknown).

    With `extra` the lines belong to that extra. `proved` are bounds that were found in the distributions themselves;
    the others follow from the linked version. Nothing is added if the project's own requirement is at least as narrow.
    Returns the new METADATA and the added lines. Raises ActionError if the project's own requirement excludes the
    linked version, or if that version is unknown and the project does not require the distribution.
    """
    condition = f'; extra == "{extra}"' if extra else ""
    present = metadata.requirements(text)
    added: list[str] = []
    for distribution, version in sorted(linked.items()):
        own = _of_name(present, distribution)
        bounds = (proved or {}).get(distribution)
        if version is None and bounds is None:
            if not any(_holds(r, extra) for r in own):
                raise ActionError.of(
                    f"the wheel needs {distribution}, and the toolkit does not give the version it was linked with",
                    hint=f"require {distribution} in the project's own dependencies, with the versions that fit, "
                    "or use a toolkit that gpuforge fetches",
                )
            continue
        for requirement in own if version else ():
            _check(requirement, distribution, version or "")
        bounds = bounds or Bounds.after(requirement_for(distribution, version or ""))
        same = [*own, *_of_name(present, bounds.requirement.name)]  # of CUDA's metapackage, too
        if not any(_holds(r, extra) and bounds.as_narrow(r) for r in same):
            added.append(f"{bounds.line}{condition}")
    added = list(dict.fromkeys(added))
    return metadata.insert_requirements(text, added), added


def require_carried(
    text: bytes, carried: Iterable[Carried], chosen: Sequence[str]
) -> tuple[bytes, list[str]]:
    """Add the requirements `chosen` by the manifest, and one for each other package whose libraries the wheel uses.

    For a package of an unknown release the project's own requirement stays. Returns the new METADATA and the added
    lines. Raises ActionError if a requirement excludes the release that the wheel was linked with.
    """
    text = metadata.add_requirements(text, chosen)
    lines = [*chosen]
    names = {canonicalize_name(Requirement(line).name) for line in chosen}
    for package in (each for each in carried if each.version):
        bounds = Bounds.after(Requirement(package.series))
        with_it, added = require(text, {package.package: package.version}, proved={package.package: bounds})
        if package.package not in names:
            text = with_it
            lines += added
    return text, lines


def bounds_of(floors: Iterable[Floor], major: int) -> dict[str, Bounds]:
    """Return the bounds that were found in the packages of the libraries, for a wheel of this CUDA major."""
    return {
        floor.package: Bounds(Requirement(provided.requirement(floor, major)), provided.outside(floor, major))
        for floor in floors
    }


class Bounds(NamedTuple):
    """A requirement, and the versions that it must exclude."""

    requirement: Requirement
    outside: tuple[str, ...]

    @classmethod
    def after(cls, requirement: Requirement) -> Bounds:
        """Make it from a requirement with two bounds; the excluded versions are just outside of them."""
        bounds = {s.operator: Version(s.version) for s in requirement.specifier}
        low, high = bounds[">="], bounds["<"]
        return cls(requirement, (just_below(low.major, low.minor), str(high), f"{high}.99999"))

    @property
    def line(self) -> str:
        """The requirement as in METADATA: "nvidia-cufft>=12.0,<13"."""
        extras = f"[{','.join(sorted(self.requirement.extras))}]" if self.requirement.extras else ""
        versions = sorted(map(str, self.requirement.specifier), reverse=True)
        return f"{self.requirement.name}{extras}{','.join(versions)}"

    def as_narrow(self, own: Requirement) -> bool:
        """Return whether a requirement of the distribution, or of CUDA's metapackage, excludes the same versions."""
        outside, extras = self.outside, self.requirement.extras
        if extras and canonicalize_name(own.name) == canonicalize_name(self.requirement.name):
            if not extras <= own.extras:
                return False
            outside = self.after(self.requirement).outside
        return not any(own.specifier.contains(version, prereleases=True) for version in outside)


def _of_name(present: Iterable[Requirement], distribution: str) -> list[Requirement]:
    return [r for r in present if canonicalize_name(r.name) == canonicalize_name(distribution)]


def _check(own: Requirement, distribution: str, linked: str) -> None:
    if not own.specifier.contains(linked, prereleases=True):
        raise ActionError.of(
            f"the project requires {own}, but the wheel was linked with {distribution} {linked}",
            hint="correct the project's dependencies, or build with a toolkit that they allow",
        )


def _holds(own: Requirement, extra: str | None) -> bool:
    """Return whether a requirement applies on this machine with every Python, always or when `extra` is installed."""
    return metadata.always_holds(own.marker, platform.machine(), extra or "")


def without_other_majors(text: bytes, major: int) -> tuple[bytes, list[str]]:
    """Remove the project's extras for other CUDA majors from METADATA: [cuda12] is useless in a wheel for CUDA 13.

    Returns the new METADATA and the extras that were removed.
    """
    extras = [canonicalize_name(name) for name in metadata.fields(text, "Provides-Extra")]
    others: list[str] = [name for name in extras if major_of_extra(name) not in {None, major}]
    return metadata.without_extras(text, others), others


def declare_extras(text: bytes, extras: Mapping[str, Sequence[str]]) -> tuple[bytes, list[str]]:
    """Declare extras and their requirements in METADATA; the project's own requirements in these extras stay.

    Returns the new METADATA and the added lines.
    """
    lines = [f'{line}; extra == "{name}"' for name, lines in extras.items() for line in lines]
    return metadata.add_requirements(metadata.provide_extras(text, [*extras]), lines), lines
