"""The build record in a wheel's `.dist-info`, as a value that has nothing of the build machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A compiler of host code: "g++", "12.2.0"."""

    family: str
    version: str


@dataclass(frozen=True, slots=True)
class DeviceCompiler:
    """A compiler of GPU code, and its compiler of host code."""

    family: str
    version: str
    host: HostCompiler


@dataclass(frozen=True, slots=True)
class Architectures:
    """The architectures of machine code ("90", "90a") and of PTX."""

    archs: tuple[str, ...]
    ptx: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsedToolkit:
    """A CUDA toolkit, its provider, and the versions of its packages."""

    version: str
    provider: str
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CudaBuild:
    """The build of a wheel for one CUDA version; with `--archs`, `whole` has the architectures of the manifest."""

    linkage: str
    toolkit: UsedToolkit
    compiled: Architectures
    whole: Architectures | None = None


@dataclass(frozen=True, slots=True)
class AxisValues:
    """The values of the manifest's axes that a wheel was built with, and those that it serves."""

    built: Mapping[str, str]
    serves: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """The tools and values that a wheel was built with; None for those that it does not have.

    A wheel for all CUDA versions or for none has no `cuda` and no `device`; a kernels wheel has no `host`.
    """

    gpuforge: str  # its version
    machine: str
    manifest: str  # the sha256 of the settings that affect the wheel
    host: HostCompiler | None = None
    device: DeviceCompiler | None = None
    cuda: CudaBuild | None = None
    axes: AxisValues | None = None
    cell: str = ""  # "" if several cells share the wheel
    naming: str = ""
