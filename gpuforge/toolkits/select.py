"""Choose where a CUDA toolkit comes from: wheels of PyPI, or an installation on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.version import Version

from gpuforge import digest
from gpuforge.errors import MissingError, UsageError
from gpuforge.toolkits import pypi, system
from gpuforge.toolkits.pypi import Pin
from gpuforge.toolkits.tables import release

MACHINES = ("x86_64", "aarch64")
NOT_YET = {"image": "a container image", "debian": "distribution packages", "redist": "NVIDIA's archives"}


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One toolkit, decided: either a folder of this machine or the wheels to assemble one of."""

    version: str  # the minor: "13.0"
    provider: Literal["pypi", "system"]
    identity: str  # digest, part of keys
    nvcc: str  # its compiler's version: "13.0.88"
    root: Path | None = None  # system
    pins: tuple[Pin, ...] = ()  # pypi

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(pin.size for pin in self.pins)


def select(
    version: str,
    *,
    provider: str | None,
    libraries: Sequence[str],
    machine: str,
    search: Sequence[Path] | None = None,
) -> Toolkit:
    """Return the toolkit to use for `version` (a minor: "13.0") and the `libraries` to have in it (cufft, cublas …).

    Without a `provider`: PyPI if it has that minor, else an installation of exactly that minor (`search` instead of
    the usual places). Raises UsageError for an unknown version, provider, library or machine, and MissingError,
    saying what was found, when there is none.
    """
    minor = release(version).version
    if machine not in MACHINES:
        raise UsageError.of(f"no CUDA toolkit for machine {machine!r}", hint=f"known: {', '.join(MACHINES)}")
    if provider not in {None, "pypi", "system", *NOT_YET}:
        raise UsageError.of(
            f"unknown toolkit provider {provider!r}", hint=f"known: pypi, system, {', '.join(NOT_YET)}"
        )
    if provider in NOT_YET:
        raise MissingError.of(
            f"gpuforge cannot yet take a CUDA toolkit from {NOT_YET[provider]} (provider = {provider!r})",
            hint=f'install CUDA {minor} yourself and use provider = "system"' + _or_pypi(),
        )
    if provider == "pypi" or (provider is None and minor in pypi.toolkits()):
        return _from_pypi(minor, libraries, machine)
    return _from_system(minor, libraries, search)


def _from_pypi(minor: str, libraries: Sequence[str], machine: str) -> Toolkit:
    if minor not in pypi.toolkits():
        raise UsageError.of(
            f"PyPI has no compiler of CUDA {minor}: nvcc is there from CUDA 13 on",
            hint=f'install CUDA {minor} and use provider = "system"' + _or_pypi(),
        )
    pins = pypi.pins(minor, libraries, machine)
    nvcc = next(pin.version for pin in pins if pin.package == "nvidia-cuda-nvcc")
    identity = digest.of_data(sorted(pin.sha256 for pin in pins))
    return Toolkit(minor, "pypi", identity, nvcc, pins=pins)


def _from_system(minor: str, libraries: Sequence[str], search: Sequence[Path] | None) -> Toolkit:
    newest = pypi.toolkits()[-1]
    pypi.check_libraries(libraries, pypi.libraries(newest), minor)
    found = list(system.installed(search))
    for candidate in found:
        if candidate.minor == minor:
            return Toolkit(minor, "system", candidate.identity, candidate.nvcc, root=candidate.root)
    what = ", ".join(f"{c.version} in {c.root}" for c in found) or "none"
    raise MissingError.of(
        f"no CUDA {minor} on this machine; found: {what}",
        hint=f"install it in /usr/local/cuda-{minor}, or set CUDA_PATH to where it is" + _or_pypi(),
    )


def _or_pypi() -> str:
    names = sorted(pypi.toolkits(), key=Version)
    return f"; or use CUDA {names[0]} to {names[-1]}, which gpuforge fetches from PyPI"
