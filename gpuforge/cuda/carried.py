"""Packages whose own libraries extensions are linked with, as in a build environment."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from packaging.version import Version


class Carried(NamedTuple):
    """One installed package, with its libraries."""

    package: str  # "torch"
    version: str
    module: str  # the module that loads its libraries when imported; "" if no library is in an import package
    libraries: Mapping[str, str]  # SONAME -> folder below site-packages: "torch/lib"

    @property
    def series(self) -> str:
        """Requires-Dist for the releases with the same ABI, judged by the version: "torch>=2.15,<2.16"."""
        version = Version(self.version)
        return f"{self.package}>={version.major}.{version.minor},<{version.major}.{version.minor + 1}"


class BuildLibraries(NamedTuple):
    """The libraries of the packages of a build environment."""

    carried: tuple[Carried, ...] = ()  # packages whose libraries a wheel uses at run time: torch
    others: Mapping[str, str] = MappingProxyType({})  # those of other packages: file name -> package
