"""The CUDA toolkits that PyPI has, each as the packages' versions of which NVIDIA made it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from pypi_wheels import Wheel, metadata_of, wheels_of

METAPACKAGE = "cuda-toolkit"  # its extras say which versions NVIDIA put into one toolkit
SAME_RELEASE = timedelta(days=3)  # the wheels of one toolkit are uploaded together


@dataclass
class Release:
    """One toolkit minor: its packages' versions and which of them each extra of the metapackage brings."""

    toolkit: str
    source: str
    versions: dict[str, str] = field(default_factory=dict)
    extras: dict[str, set[str]] = field(default_factory=dict)


def releases() -> Iterator[Release]:
    """Yield every toolkit minor on PyPI, oldest first: the newest patch of each, then those with no metapackage yet."""
    newest = {".".join(v.split(".")[:2]): v for v in wheels_of(METAPACKAGE)}
    release = Release("", "")
    for toolkit, version in newest.items():
        release = Release(toolkit, f"https://pypi.org/project/{METAPACKAGE}/{version}/")
        read_extras(release, metadata_of(wheels_of(METAPACKAGE)[version][0]))
        yield release
    known = Version(release.toolkit)
    for version, wheels in wheels_of("nvidia-cuda-nvcc").items():
        minor = Version(".".join(version.split(".")[:2]))
        if minor > known:
            yield uploaded_together(str(minor), wheels[0], release)


def read_extras(release: Release, metadata: Any) -> None:
    """Fill `release` from the metapackage's `Requires-Dist`, for Linux."""
    for line in metadata.get_all("Requires-Dist", ()):
        requirement = Requirement(line)
        package = canonicalize_name(requirement.name)
        extra = next(iter(re.findall(r"extra == [\"']([^\"']+)", line)), "all")
        if "linux" not in line or extra == "all":
            continue
        release.extras.setdefault(extra, set()).add(package)
        release.versions[package] = newest_matching(package, requirement)


def newest_matching(package: str, requirement: Requirement) -> str:
    """Return the version that an exact pin (`==13.4.92.*`) names, or the lower bound of a range (`>=13.4.92,<14`)."""
    lower = [s.version for s in requirement.specifier if s.operator == ">="]
    if lower:
        return lower[0]
    return [v for v in wheels_of(package) if requirement.specifier.contains(v)][-1]


def uploaded_together(toolkit: str, nvcc: Wheel, previous: Release) -> Release:
    """Return the release whose wheels were uploaded with this nvcc: what there is before its metapackage appears."""
    release = Release(toolkit, f"https://pypi.org/project/{nvcc.package}/{nvcc.version}/")
    for package in previous.versions:
        for version, wheels in wheels_of(package).items():
            if abs(wheels[0].uploaded - nvcc.uploaded) < SAME_RELEASE:
                release.versions[package] = version
    for extra, packages in previous.extras.items():
        if packages <= release.versions.keys():
            release.extras[extra] = packages
    return release
