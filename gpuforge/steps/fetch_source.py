"""Fetch a package's source from an index or from git, checked, unpacked into one folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import requests
from packaging.utils import canonicalize_name
from pypi_simple import DistributionPackage, NoDigestsError, NoSuchProjectError, PyPISimple
from pypi_simple.errors import DigestMismatchError

from gpuforge import digest
from gpuforge.errors import ActionError, MissingError
from gpuforge.plan import git_version
from gpuforge.plan.requests.source import FetchSource, LocalSdist, Revision, Sdist
from gpuforge.requirements import Release
from gpuforge.steps import entry
from gpuforge.steps.sdist import unpack
from gpuforge.wheel.package_index import index_url, public, session


def main(request: FetchSource) -> None:
    """Write the source tree to `output`; nothing is left there if it cannot be fetched completely."""
    match request.source:
        case Sdist(requirement, sha256):
            archive = download_sdist(requirement, sha256, request.scratch)
            unpack(archive, request.output, request.scratch)
        case LocalSdist(file, name):
            archive = request.scratch / name
            archive.symlink_to(file)
            unpack(archive, request.output, request.scratch)
        case Revision(repository, revision):
            clone(repository, revision, request.output)


def download_sdist(requirement: str, sha256: str | None, folder: Path) -> Path:
    """Download the sdist of `name==version` and return its path.

    The index is pip's own setting (default: PyPI); proxies and CA bundles are those of the environment.
    Raises MissingError without network, ActionError when the file is not there or has another sha256.
    """
    release = Release.of_pin(requirement)
    index = public(index_url())
    try:
        with PyPISimple(endpoint=index_url(), session=session()) as client:
            page = client.get_project_page(canonicalize_name(release.project))
            package = _sdist(page.packages, release, index)
            target = folder / Path(package.filename).name
            print(f"downloading {package.filename}", flush=True)
            client.download_package(
                package, target, verify="sha256" in (package.digests or {}), keep_on_error=False
            )
    except NoSuchProjectError as error:
        raise ActionError.of(
            f"{index} has no project {release.project}", hint="check [package] source"
        ) from error
    except (DigestMismatchError, NoDigestsError) as error:
        raise ActionError.of(
            f"the download of {requirement} arrived broken: {error}", hint="run it again"
        ) from error
    except requests.RequestException as error:
        raise MissingError.of(
            f"cannot reach the package index {index}: {type(error).__name__}",
            hint="check the network, the proxy and the CA bundle (REQUESTS_CA_BUNDLE, PIP_INDEX_URL)",
        ) from error
    found = digest.of_file(target)
    if sha256 and found != sha256:
        raise ActionError.of(
            f"{target.name} has sha256 {found}, but the manifest says {sha256}",
            hint="compare both with the index; correct [package] source when the manifest is the one that is wrong",
        )
    print(f"sha256 {found}", flush=True)
    return target


def clone(repository: str, rev: str, output: Path) -> None:
    """Check out one revision of a git repository, submodules included, without its history.

    If the project takes its version from git, the version is written to a file.
    """

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(output), *words], check=True)  # noqa: S607  the git that is on PATH

    output.mkdir()
    try:
        git("init", "--quiet")
        git("remote", "add", "origin", "--", repository)
        try:
            git("fetch", "--quiet", "--depth", "1", "origin", rev)
            git("checkout", "--quiet", "FETCH_HEAD")
        except (
            subprocess.CalledProcessError
        ):  # not every server sends a single commit: fetch the history, then search it
            git("fetch", "--quiet", "--tags", "origin")
            git("checkout", "--quiet", rev)
        git("submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1")
        if git_version.is_needed(output / name for name in git_version.DECLARING):
            if (output / ".git" / "shallow").exists():
                git("fetch", "--quiet", "--tags", "--unshallow", "--filter=blob:none", "origin")
            git_version.write(output, git_version.described(output, os.environ))
    except FileNotFoundError as error:
        raise MissingError.of("git is not installed", hint="apt-get install git") from error
    except subprocess.CalledProcessError as error:
        raise ActionError.of(
            f"cannot fetch {rev} of {repository}", hint="git's output is above; check [package] source"
        ) from error
    shutil.rmtree(output / ".git")


def _sdist(packages: list[DistributionPackage], release: Release, index: str) -> DistributionPackage:
    versions = sorted({p.version or "" for p in packages if p.package_type == "sdist"})
    for package in packages:
        if package.package_type == "sdist" and package.version == release.version:
            return package
    raise ActionError.of(
        f"{index} has no source distribution of {release}",
        hint=f"it has {', '.join(versions[-8:])}"
        if versions
        else "that project publishes wheels only: use git",
    )


if __name__ == "__main__":
    entry.run(FetchSource, main)
