"""Choose where a CUDA toolkit comes from: PyPI, an installation on this machine, Debian, or NVIDIA's archives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.version import Version

from gpuforge import digest
from gpuforge.cuda.releases import release
from gpuforge.errors import MissingError, UsageError
from gpuforge.toolchains.inventory import Inventory
from gpuforge.toolkits import debian, pypi, redist, system
from gpuforge.toolkits.debian import Part
from gpuforge.toolkits.pypi import Pin
from gpuforge.toolkits.redist import Archives

MACHINES = ("x86_64", "aarch64")
PROVIDERS = ("image", "pypi", "system", "debian", "redist")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One toolkit, decided: either a folder of this machine or what to download and assemble one of."""

    version: str  # the minor: "13.0"
    provider: Literal["image", "pypi", "system", "debian", "redist"]
    identity: str  # digest, part of keys
    nvcc: str  # its compiler's version: "13.0.88"
    root: Path | None = None  # image, system
    pins: tuple[Pin, ...] = ()  # pypi, debian
    parts: tuple[Part, ...] = ()  # debian
    archives: Archives | None = None  # redist

    @property
    def size(self) -> int:
        """Bytes to download, as far as they are known."""
        return sum(pin.size for pin in self.pins) + sum(part.size for part in self.parts)

    @property
    def origin(self) -> str:
        """Where it comes from, for people: "PyPI", "Debian trixie and PyPI", "/usr/local/cuda-12.4"."""
        if self.provider == "debian":
            return f"Debian {debian.suite(self.version)} and PyPI"
        if self.archives is not None:
            return f"NVIDIA's archives of {self.archives.label}"
        return str(self.root) if self.root is not None else "PyPI"


def select(
    version: str,
    *,
    provider: str | None,
    libraries: Sequence[str],
    machine: str,
    search: Sequence[Path] | None = None,
    inventory: Inventory | None = None,
) -> Toolkit:
    """Return the toolkit to use for `version` (a minor: "13.0") and the `libraries` to have in it (cufft, cublas …).

    Without a `provider`, the first that has exactly that minor: the image of the build (`inventory` is what it
    holds), PyPI, an installation on this machine (`search` instead of the usual places), Debian, NVIDIA's
    archives. Raises UsageError for an unknown version, provider,
    library or machine, and MissingError, saying what was found, when there is none.
    """
    minor = release(version).version
    if machine not in MACHINES:
        raise UsageError.of(f"no CUDA toolkit for machine {machine!r}", hint=f"known: {', '.join(MACHINES)}")
    if provider not in {None, *PROVIDERS}:
        raise UsageError.of(
            f"unknown toolkit provider {provider!r}", hint=f"known: {', '.join(PROVIDERS[1:])}, image"
        )
    if provider in {None, "image"}:
        found = _in_image(minor, libraries, inventory, required=provider == "image")
        if found is not None:
            return found
    if provider == "pypi" or (provider is None and minor in pypi.toolkits()):
        return _from_pypi(minor, libraries, machine)
    fetched = [name for name in ("debian", "redist") if minor in _FETCHED[name].toolkits()]
    if provider in _FETCHED:
        return _fetched(provider, minor, libraries, machine)
    installed = _installed(minor, libraries, search, required=provider == "system" or not fetched)
    return installed or _fetched(fetched[0], minor, libraries, machine)


def _in_image(
    minor: str, libraries: Sequence[str], inventory: Inventory | None, *, required: bool
) -> Toolkit | None:
    """Return the toolkit of exactly that minor in an image; None or, if `required`, MissingError when it has none."""
    toolkits = inventory.toolkits if inventory else {}
    for root, version in toolkits.items():
        if inventory and ".".join(version.split(".")[:2]) == minor:
            pypi.check_libraries(libraries, pypi.libraries(pypi.toolkits()[-1]), minor)
            nvcc = inventory.detect("nvcc", path=str(root / "bin" / "nvcc"))
            identity = digest.of_data([nvcc.identity, version])
            return Toolkit(minor, "image", identity, str(nvcc.version), root=root)
    if not required:
        return None
    if inventory is None:
        raise MissingError.of(
            "provider = 'image' takes the CUDA toolkit from a container image, and this build runs in none",
            hint="build with --runner docker, or leave the provider out: " + _offers(minor),
        )
    having = ", ".join(f"{version} in {root}" for root, version in toolkits.items()) or "none"
    raise MissingError.of(
        f"no CUDA {minor} in image {inventory.name}; it has {having}",
        hint="choose another image, or leave the provider out: " + _offers(minor),
    )


def _from_pypi(minor: str, libraries: Sequence[str], machine: str) -> Toolkit:
    if minor not in pypi.toolkits():
        raise UsageError.of(
            f"PyPI has no compiler of CUDA {minor}: nvcc is there from CUDA 13 on",
            hint="leave the provider out: " + _offers(minor),
        )
    pins = pypi.pins(minor, libraries, machine)
    nvcc = next(pin.version for pin in pins if pin.package == "nvidia-cuda-nvcc")
    identity = digest.of_data(sorted(pin.sha256 for pin in pins))
    return Toolkit(minor, "pypi", identity, nvcc, pins=pins)


def _installed(
    minor: str, libraries: Sequence[str], search: Sequence[Path] | None, *, required: bool
) -> Toolkit | None:
    """Return the installation of exactly that minor; None or, if `required`, MissingError when there is none."""
    newest = pypi.toolkits()[-1]
    found = list(system.installed(search))
    for candidate in found:
        if candidate.minor == minor:
            pypi.check_libraries(libraries, pypi.libraries(newest), minor)
            return Toolkit(minor, "system", candidate.identity, candidate.nvcc, root=candidate.root)
    if not required:
        return None
    pypi.check_libraries(libraries, pypi.libraries(newest), minor)
    what = ", ".join(f"{c.version} in {c.root}" for c in found) or "none"
    raise MissingError.of(
        f"no CUDA {minor} on this machine; found: {what}",
        hint=f"install it in /usr/local/cuda-{minor}, or set CUDA_PATH to where it is; or {_offers(minor)}",
    )


_FETCHED = {"debian": debian, "redist": redist}


def _fetched(provider: str, minor: str, libraries: Sequence[str], machine: str) -> Toolkit:
    known = _FETCHED[provider].toolkits()
    if minor not in known:
        raise UsageError.of(
            f'provider = "{provider}" has no CUDA {minor}; it has {", ".join(known)}',
            hint="leave the provider out: " + _offers(minor),
        )
    if provider == "debian":
        pins, parts = debian.pins(minor, libraries, machine), debian.parts(minor, machine)
        identity = digest.of_data(sorted([*(pin.sha256 for pin in pins), *(part.sha256 for part in parts)]))
        return Toolkit(minor, "debian", identity, debian.nvcc(minor), pins=pins, parts=parts)
    archives = redist.archives(minor, libraries, machine)
    return Toolkit(minor, "redist", digest.of_data(archives.as_data()), archives.nvcc, archives=archives)


def _offers(minor: str) -> str:
    """Say which providers gpuforge fetches a minor from, or which minors it fetches."""
    sources = {"pypi": pypi.toolkits(), "debian": debian.toolkits(), "redist": redist.toolkits()}
    having = [name for name, versions in sources.items() if minor in versions]
    if having:
        return f"gpuforge fetches CUDA {minor} by {' or '.join(having)}"
    names = sorted({name for versions in sources.values() for name in versions}, key=Version)
    return f"use one of those that gpuforge fetches: {', '.join(names)}"
