"""Obtains the project for `gpuforge init`: a folder, an sdist, or the newest sdist of a project on the index."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import requests
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple

from gpuforge.actions.sdist import download_sdist, unpack
from gpuforge.errors import MissingError, UsageError
from gpuforge.requirements import parse_requirement
from gpuforge.wheel import package_index


@dataclass(frozen=True, slots=True)
class Origin:
    """A folder, an sdist or a release on an index."""

    name: str  # of the project, if its files have none
    kind: str  # of the reason: "from-folder", "from-index"
    source: Mapping[str, str]  # as in the manifest
    facts: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[Tag, ...] = ()  # of published wheels for Linux


_SDISTS = (".tar.gz", ".zip")
_ARCHIVES = (*_SDISTS, ".tgz", ".tar.bz2", ".tar.xz", ".whl")


def obtain(project: str, manifest: Path, scratch: Path) -> tuple[Origin, Path]:
    """Return the origin of a project, relative to its `manifest`, and the folder with its files.

    Raises UsageError for anything but a folder, an sdist or a project on the index, and the errors of `index.fetch` and
    `unpack`.
    """
    path = Path(project)
    below = Path(os.path.relpath(path.absolute(), manifest.absolute().parent)).as_posix()
    if not project:
        raise UsageError.of(
            "the project's name is empty", hint="`.` is this folder; is a variable of the shell unset?"
        )
    if path.is_dir():
        if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py")):
            raise UsageError.of(
                f"{path.absolute()} has neither pyproject.toml nor setup.py",
                hint="name the folder of a Python project, an sdist, or a project on the index",
            )
        return Origin(path.resolve().name, "from-folder", {"path": below}), path
    if path.is_file() and project.endswith(_SDISTS):
        unpack(path, scratch / "source", scratch)
        return Origin(path.name, "from-sdist", {"path": below}), scratch / "source"
    if path.exists() or "/" in project or project.lower().endswith(_ARCHIVES):
        raise UsageError.of(
            f"{path} is neither a folder nor an sdist" if path.exists() else f"{path} does not exist",
            hint="name a folder, an sdist (NAME-VERSION.tar.gz or .zip), or a project on the index",
        )
    return fetch(requirement_of(project), scratch)


_HINT = "name a project on the index, a folder or an sdist: `gpuforge init cufinufft==2.5.1`"


def requirement_of(text: str) -> Requirement:
    """Return a project's name, with a version or a range; raises UsageError for anything else."""
    try:
        requirement = parse_requirement(text)
    except InvalidRequirement:
        raise UsageError.of(f"{text!r} is neither here nor the name of a project", hint=_HINT) from None
    if requirement.url or requirement.extras or requirement.marker:
        raise UsageError.of(f"{text!r} is more than a project's name and version", hint=_HINT)
    return requirement


def fetch(requirement: Requirement, scratch: Path) -> tuple[Origin, Path]:
    """Download the newest matching sdist into `scratch` and unpack it; return its origin and its folder.

    Raises UsageError for a project without a matching sdist, MissingError without network, ActionError for a download
    with another digest.
    """
    index = package_index.public(package_index.index_url())
    try:
        with PyPISimple(endpoint=package_index.index_url(), session=package_index.session()) as client:
            packages = client.get_project_page(canonicalize_name(requirement.name)).packages
    except NoSuchProjectError:
        raise UsageError.of(f"{index} has no project {requirement.name}", hint=_HINT) from None
    except requests.RequestException as error:
        raise MissingError.of(
            f"cannot reach the package index {index}: {type(error).__name__}",
            hint="check the network, the proxy and the CA bundle (REQUESTS_CA_BUNDLE, PIP_INDEX_URL)",
        ) from error
    sdist = _newest(packages, requirement, index)
    sha256 = (sdist.digests or {}).get("sha256", "")
    if not sha256:
        raise UsageError.of(
            f"{index} gives no sha256 for {sdist.filename}", hint="download it yourself, and name the folder"
        )
    pinned = f"{requirement.name}=={sdist.version}"  # the version in its file name
    archive = download_sdist(pinned, sha256, scratch)
    folder = scratch / "source"
    unpack(archive, folder, scratch)
    origin = Origin(
        requirement.name,
        "from-index",
        {"pypi": pinned, "sha256": sha256},
        {"file": sdist.filename},
        tuple(_tags(packages)),
    )
    return origin, folder


def _newest(packages: list[DistributionPackage], requirement: Requirement, index: str) -> DistributionPackage:
    sdists = []
    for package in packages:
        try:
            version = Version(package.version or "")
        except InvalidVersion:
            continue
        if package.package_type == "sdist" and not package.is_yanked:
            sdists.append((package, version))
    by_version = {version: package for package, version in reversed(sdists)}
    fitting = list(requirement.specifier.filter(by_version))
    if not fitting:
        if not sdists:
            message = f"{index} has no source distribution of {requirement.name}"
            hint = "clone its repository and name the folder"
        else:
            message = f"{index} has no source distribution of {requirement}"
            known = sorted(by_version)[-8:]
            hint = f"it has {', '.join(map(str, known))}"
        raise UsageError.of(message, hint=hint)
    return by_version[max(fitting)]


def _tags(packages: list[DistributionPackage]) -> list[Tag]:
    """Return the tags of the newest wheels for Linux."""
    found: dict[Version, list[Tag]] = {}
    for package in packages:
        try:
            if package.package_type == "wheel":
                _, version, _, tags = parse_wheel_filename(package.filename)
                found.setdefault(version, []).extend(tag for tag in tags if "linux" in tag.platform)
        except InvalidWheelFilename:
            continue
    with_some = [version for version, tags in found.items() if tags]
    return found[max(with_some)] if with_some else []
