"""The requirements that a wheel declares for the libraries it is linked with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.errors import ActionError
from gpuforge.wheel import metadata, metadata_edit


def requirement_for(package: str, linked: str) -> Requirement:
    """Return the requirement for a library that a wheel was linked with at version `linked`.

    From its major.minor on, as what was there at link time must be there at run time, and below the next
    major version, which has another SONAME: "nvidia-cufft" at "12.0.0.61" gives "nvidia-cufft<13,>=12.0".
    """
    try:
        version = Version(linked)
    except InvalidVersion as error:
        raise ActionError.of(
            f"the toolkit says {package} is at {linked!r}, which is no version",
            hint="provision the toolkit again",
        ) from error
    return Requirement(f"{package}>={version.major}.{version.minor},<{version.major + 1}")


def require(
    text: bytes,
    linked: Mapping[str, str | None],
    *,
    extra: str | None = None,
    proved: Mapping[str, Bounds] | None = None,
) -> tuple[bytes, list[str]]:
    """Add a Requires-Dist for each package of `linked` (name → version it was linked with, None if unknown).

    With `extra` the lines hold only where that extra is asked for. `proved` are bounds that were found out in the
    packages themselves; the others follow from the linked version. Returns the new METADATA and the lines
    added. Nothing is added where the project's own requirement says as much already. Raises ActionError when
    its own requirement shuts the linked version out, or when the version is unknown and the project requires
    nothing itself.
    """
    condition = f'; extra == "{extra}"' if extra else ""
    present = metadata.requirements(text)
    added: list[str] = []
    for package, version in sorted(linked.items()):
        own = [r for r in present if canonicalize_name(r.name) == canonicalize_name(package)]
        bounds = (proved or {}).get(package)
        if version is None and bounds is None:
            if not any(_holds(r, extra) for r in own):
                raise ActionError.of(
                    f"the wheel needs {package}, and the toolkit does not say at which version it was linked",
                    hint=f"require {package} in the project's own dependencies, with the versions that fit, "
                    "or use a toolkit that gpuforge fetches",
                )
            continue
        for requirement in own if version else ():
            _check(requirement, package, version or "")
        bounds = bounds or Bounds.after(requirement_for(package, version or ""))
        if not any(_holds(r, extra) and bounds.hold_in(r) for r in [*own, *_of_name(present, bounds.line)]):
            added.append(f"{bounds.line}{condition}")
    added = list(dict.fromkeys(added))
    return metadata_edit.insert_requirements(text, added), added


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a package is required with: the line, and versions of the package that it must not let in."""

    line: str  # "nvidia-cufft>=12.0,<13"
    outside: tuple[str, ...]

    @classmethod
    def after(cls, wanted: Requirement) -> Bounds:
        """Make it of a requirement's own two bounds, probed at both ends."""
        bounds = {s.operator: Version(s.version) for s in wanted.specifier}
        low, high = bounds[">="], bounds["<"]
        below = f"{low.major}.{low.minor - 1}.99999" if low.minor else f"{low.major - 1}.99999"
        line = wanted.name + ",".join(sorted((str(s) for s in wanted.specifier), reverse=True))
        return cls(line, (below, str(high), f"{high}.99999"))

    def hold_in(self, own: Requirement) -> bool:
        """Tell if a requirement of the same project lets in nothing beyond the bounds."""
        line = Requirement(self.line)
        if canonicalize_name(own.name) == canonicalize_name(line.name) and line.extras:
            probes = [s.version for s in line.specifier if s.operator == "<"]
            floors = [Version(s.version) for s in line.specifier if s.operator == ">="]
            probes += [f"{floor.major - 1}.99999" for floor in floors if not floor.minor]
            probes += [f"{floor.major}.{floor.minor - 1}.99999" for floor in floors if floor.minor]
            return line.extras <= own.extras and not _lets_in(own, probes)
        return not _lets_in(own, self.outside)


def _lets_in(own: Requirement, versions: Sequence[str]) -> bool:
    return any(own.specifier.contains(version, prereleases=True) for version in versions)


def _of_name(present: Sequence[Requirement], line: str) -> list[Requirement]:
    """Return the requirements of the project that a line with extras is of: of the toolkits' metapackage."""
    wanted = Requirement(line)
    return [
        r for r in present if wanted.extras and canonicalize_name(r.name) == canonicalize_name(wanted.name)
    ]


def _check(own: Requirement, package: str, linked: str) -> None:
    if not own.specifier.contains(linked, prereleases=True):
        raise ActionError.of(
            f"the project requires {own}, but the wheel was linked with {package} {linked}",
            hint="correct the project's dependencies, or build with a toolkit that they allow",
        )


def _holds(own: Requirement, extra: str | None) -> bool:
    """Tell if a requirement holds always, or wherever `extra` is asked for."""
    if own.marker is None:
        return True
    said = re.fullmatch(r"extra == [\"']([^\"']+)[\"']", str(own.marker))
    return bool(said and extra and canonicalize_name(said[1]) == canonicalize_name(extra))
