"""Fetch a package's source from an index or from git, checked, unpacked into one folder."""

from __future__ import annotations

import errno
import lzma
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Self

import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pypi_simple import DistributionPackage, NoDigestsError, NoSuchProjectError, PyPISimple
from pypi_simple.errors import DigestMismatchError

from gpuforge import digest
from gpuforge.errors import ActionError, MissingError
from gpuforge.index.settings import index_url, public, session
from gpuforge.plan import git_version
from gpuforge.plan.requests.source import FetchSource, LocalSdist, Revision, Sdist
from gpuforge.steps import entry

MOST_BYTES, MOST_MEMBERS = (
    4 * 10**9,
    400_000,
)  # of an unpacked sdist; PyPI's default limit is 100 MB packed
MOST_HEADER_BYTES = 300 * 10**6  # of a tar: 512 for each member, and names and PAX records that are longer
_OF_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)  # whose data `tarfile` reads into memory
_UNSOUND = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    OverflowError,
    MemoryError,
    RuntimeError,  # zipfile's word for a password, and for a method that it does not know
    OSError,
)
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)


def main(request: FetchSource) -> None:
    """Write the source tree to `output`; nothing is left there when it cannot be had whole."""
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
    wanted = Requirement(requirement)
    (pin,) = wanted.specifier
    index = public(index_url())
    try:
        with PyPISimple(endpoint=index_url(), session=session()) as client:
            page = client.get_project_page(canonicalize_name(wanted.name))
            package = _sdist(page.packages, wanted.name, pin.version, index)
            target = folder / Path(package.filename).name
            print(f"downloading {package.filename}", flush=True)
            client.download_package(
                package, target, verify="sha256" in (package.digests or {}), keep_on_error=False
            )
    except NoSuchProjectError as error:
        raise ActionError.of(
            f"{index} has no project {wanted.name}", hint="check [package] source"
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


class _Room:
    """What an sdist may take unpacked: a small archive can hold more than any disk."""

    def __init__(self) -> None:
        self._bytes = self._members = self._header_bytes = 0

    def take(self, size: int) -> None:
        """Count one member of `size` bytes before it is unpacked; raises ValueError when that is too much."""
        self._bytes += max(size, 0)
        self._members += 1
        if self._bytes > MOST_BYTES or self._members > MOST_MEMBERS:
            msg = f"unpacked it has more than {MOST_BYTES // 10**9} GB or {MOST_MEMBERS:,} files"
            raise ValueError(msg)

    def headers(self) -> type[tarfile.TarInfo]:
        """Return the class for a tar's headers, which refuses those that need no end of memory or time.

        `tarfile` reads names and PAX records into memory whole, whatever size they declare, and goes back in the file
        by a negative size (https://nvd.nist.gov/vuln/detail/CVE-2025-8194).
        """
        room = self

        class Header(tarfile.TarInfo):
            @classmethod
            def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
                header = super().frombuf(buf, encoding, errors)
                is_data = header.type in tarfile.SUPPORTED_TYPES and header.type not in _OF_NAMES
                room._header_bytes += 512 if is_data else max(header.size, 512)
                if header.size < 0 or room._header_bytes > MOST_HEADER_BYTES:
                    msg = f"a header says {header.size} bytes, or all have more than {MOST_HEADER_BYTES // 10**6} MB"
                    raise ValueError(msg)
                return header

        return Header


def unpack(archive: Path, output: Path, scratch: Path) -> None:
    """Unpack an sdist (`.tar.gz` or `.zip`) so that its one top folder becomes `output`; raises ActionError."""
    place, room = scratch / "unpacked", _Room()
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as bundle:
                for member in bundle.infolist():
                    room.take(member.file_size)
                bundle.extractall(place)  # noqa: S202  zipfile strips absolute and parent paths itself
        else:
            with tarfile.open(archive, tarinfo=room.headers()) as bundle:
                extract(bundle, place, room)
        (top,) = place.iterdir()
    except _UNSOUND as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        raise ActionError.of(
            f"{archive.name} is not a sound sdist: {error or type(error).__name__}",
            hint="delete it where it came from and fetch it again; an sdist holds exactly one top folder",
        ) from error
    shutil.move(top, output)


def extract(bundle: tarfile.TarFile, place: Path, room: _Room) -> None:
    """Extract an archive whose members stay inside `place`, with no special files; raises tarfile.TarError else.

    That is PEP 706's `data` filter, which Python has since 3.11.4; before, what it refuses is refused here.
    """
    if hasattr(tarfile, "data_filter"):

        def checked(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
            room.take(member.size)
            return tarfile.data_filter(member, folder)

        bundle.extractall(place, filter=checked)  # noqa: S202  that is what the filter is for
        return
    for member in bundle:
        room.take(member.size)
        targets = [place / member.name]
        if member.issym():
            targets.append(place / Path(member.name).parent / member.linkname)
        elif member.islnk():
            targets.append(place / member.linkname)
        elif not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name} is a special file")
        if any(not target.resolve().is_relative_to(place.resolve()) for target in targets):
            raise tarfile.TarError(f"{member.name} leads outside the archive")
        member.mode |= 0o600
        bundle.extract(member, place)


def clone(repository: str, rev: str, output: Path) -> None:
    """Check out one revision of a git repository, submodules included, without its history.

    Where the project takes its version from git, that is left in a file.
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
        ):  # not every server gives a bare commit: take the history, then look
            git("fetch", "--quiet", "--tags", "origin")
            git("checkout", "--quiet", rev)
        git("submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1")
        if git_version.is_needed(output / name for name in git_version.DECLARING):
            if (output / ".git" / "shallow").exists():
                git("fetch", "--quiet", "--tags", "--unshallow", "--filter=blob:none", "origin")
            git_version.write(output, git_version.described(output))
    except FileNotFoundError as error:
        raise MissingError.of("git is not installed", hint="apt-get install git") from error
    except subprocess.CalledProcessError as error:
        raise ActionError.of(
            f"cannot fetch {rev} of {repository}", hint="git's own words are above; check [package] source"
        ) from error
    shutil.rmtree(output / ".git")


def _sdist(packages: list[DistributionPackage], name: str, version: str, index: str) -> DistributionPackage:
    versions = sorted({p.version or "" for p in packages if p.package_type == "sdist"})
    for package in packages:
        if package.package_type == "sdist" and package.version == version:
            return package
    raise ActionError.of(
        f"{index} has no source distribution of {name} {version}",
        hint=f"it has {', '.join(versions[-8:])}"
        if versions
        else "that project publishes wheels only: use git",
    )


if __name__ == "__main__":
    entry.run(FetchSource, main)
