"""A CUDA toolkit in a plan: the request, and the toolkit that a provider offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuforge.toolkits.sources import ToolkitFiles

if TYPE_CHECKING:
    from gpuforge.toolchains.inventory import Inventory


@dataclass(frozen=True, slots=True)
class ToolkitRequest:
    """The toolkit that a build needs."""

    minor: str  # "13.0"
    libraries: Sequence[str]  # beside the compiler and the runtime: "cufft"
    machine: str  # "x86_64"
    search: Sequence[Path] | None = None  # folders to search for installations; None: the usual ones
    inventory: Inventory | None = None  # content of the build's container image; None: the build runs in none


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One resolved toolkit: an existing folder, or the files to make one from."""

    version: str  # the minor: "13.0"
    provider: str  # the provider's name: "pypi"
    identity: str  # digest, part of keys
    nvcc: str  # its compiler's version: "13.0.88"
    origin: str  # for people: "PyPI", "Debian trixie and PyPI", "/usr/local/cuda-12.4"
    root: Path | None = None  # the folder, on this machine or in the image
    source: ToolkitFiles | None = None  # without a `root`

    @property
    def size(self) -> int:
        """Bytes to download, if they are known."""
        return self.source.size if self.source else 0

    @property
    def packages(self) -> Mapping[str, str]:
        """Projects on PyPI with the toolkit's libraries, and their versions, if they are known before the fetch."""
        return self.source.packages if self.source else {}

    @property
    def packages_file(self) -> str:
        """A JSON file in the fetched tree with further `packages`; "" if there is none."""
        return self.source.packages_file if self.source else ""
