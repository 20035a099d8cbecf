"""Makes the root file system of a Debian release with debootstrap, and loads it into the engine as a base image."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gpuforge import digest
from gpuforge.containers import image_reference as references
from gpuforge.containers.build_log import Log
from gpuforge.containers.catalog import DebianRelease
from gpuforge.containers.images import RELEASE_LABEL, Images
from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits.download import GoneError, download

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


def mirror() -> str:
    """Return the Debian mirror for roots: GPUFORGE_DEBIAN_MIRROR, else Debian's own."""
    return (os.environ.get("GPUFORGE_DEBIAN_MIRROR") or MIRROR).rstrip("/")


def base(release: DebianRelease, images: Images, scratch: Path, log: Log) -> str:
    """Return the reference of the release's base image, which is made if the engine does not have it.

    Its tag is the digest of the release as it is on the mirror now, so a point release gives another base. `scratch` is
    an empty folder. Raises MissingError if root, debootstrap, the keyring or the mirror is missing.
    """
    found = _in_release(release.suite, scratch)
    reference = references.local(f"{references.OWN}/debian-{release.suite}:{found[:12]}")
    if images.find(reference):
        return reference
    program, keyring = _needs(release.suite)
    log.step(f"debootstrap {release.suite} from {mirror()}")
    root = scratch / "root"
    checked = [f"--keyring={keyring}", "--force-check-gpg"]
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


def _needs(suite: str) -> tuple[str, str]:
    """Return debootstrap's path and the keyring; raises MissingError with a hint if one is missing."""
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
