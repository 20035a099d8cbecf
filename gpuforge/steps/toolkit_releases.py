"""The releases of CUDA's metapackage: which version of a package each toolkit pins, and with which extra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge.cuda.provided import METAPACKAGE
from gpuforge.cuda.suffix import without_suffix
from gpuforge.steps.remote_wheel import PackageIndex
from gpuforge.wheel import metadata


class Pin(NamedTuple):
    """The version of a package that belongs to a toolkit, and the metapackage's extra that brings it."""

    extra: str
    version: Version


class ToolkitRelease(NamedTuple):
    """A release of the metapackage, with its pins by package."""

    version: Version
    pins: Mapping[str, Pin]


class ToolkitReleases(NamedTuple):
    """The releases for two CUDA majors, oldest first."""

    releases: tuple[ToolkitRelease, ...]

    @classmethod
    def read(cls, index: PackageIndex, cuda: int, environment: Mapping[str, str]) -> ToolkitReleases:
        """Read the releases for a CUDA major and the next one from the index."""
        wheels = [w for w in index.wheels(METAPACKAGE) if Version(w.version).major in {cuda, cuda + 1}]
        with ThreadPoolExecutor(8) as pool:
            contents = list(pool.map(index.contents, wheels))
        return cls(
            tuple(
                ToolkitRelease(Version(wheel.version), _pins(each.requires, environment))
                for wheel, each in zip(wheels, contents, strict=True)
            )
        )

    def pinned(self, package: str, major: int) -> list[Version]:
        """Return the versions of a package that the toolkits of a major pin, in order."""
        pins = (each.pins[package] for each in self._with(package) if each.version.major == major)
        return sorted(pin.version for pin in pins)

    def extra_of(self, package: str) -> str:
        """Return the extra of the newest release that brings a package; "" for none."""
        newest = self.releases[-1].pins.get(package) if self.releases else None
        return newest.extra if newest else ""

    def first_with(self, package: str, version: str) -> tuple[str, str]:
        """Return the first release whose pin is at least `version`, and that toolkit's minor; "" twice for none.

        The release is named by its minor if all releases of that minor will do.
        """
        having = self._with(package)
        older = [n for n, each in enumerate(having) if each.pins[package].version < Version(version)]
        after = having[older[-1] + 1 :] if older else having
        if not after:
            return "", ""
        since = after[0].version
        minor = f"{since.major}.{since.minor}"
        before = having[: len(having) - len(after)]
        partly = any(each.version.release[:2] == since.release[:2] for each in before)
        return (str(since) if partly else minor), minor

    def _with(self, package: str) -> list[ToolkitRelease]:
        return [each for each in self.releases if package in each.pins]


def _pins(requires: Iterable[str], environment: Mapping[str, str]) -> dict[str, Pin]:
    """Return the packages that a metapackage pins, each with its own extra, without packages that only others need."""
    found: dict[str, Pin] = {}
    for line in requires:
        requirement = Requirement(line)
        extra = metadata.extra_of(requirement.marker, environment)
        versions = [s.version.removesuffix(".*") for s in requirement.specifier if s.operator == "=="]
        package = canonicalize_name(requirement.name)
        if extra and extra != "all" and versions:
            plain = without_suffix(package).replace("-", "")
            if package not in found or plain.endswith(extra):
                found[package] = Pin(extra, Version(versions[0]))
    return found
