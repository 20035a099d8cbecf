"""A CUDA toolkit in a plan: the request, the toolkit that a provider offers, and the exact files to fetch for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuforge import digest
from gpuforge.toolkits.debian_parts import DebianPart
from gpuforge.toolkits.pins import PinnedWheel

if TYPE_CHECKING:
    from gpuforge.toolchains.inventory import Inventory


VERSIONS = (
    "packages.json"  # in a tree of archives: the wheels of PyPI with the same libraries, and their versions
)


@dataclass(frozen=True, slots=True)
class Wheels:
    """The wheels of one toolkit, and parts of Debian's packages if these have the compiler."""

    pins: tuple[PinnedWheel, ...]
    parts: tuple[DebianPart, ...] = ()
    packages_file: str = ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(pin.size for pin in self.pins) + sum(part.size for part in self.parts)

    @property
    def packages(self) -> Mapping[str, str]:
        """The wheels' projects with their versions."""
        return {pin.package: pin.version for pin in self.pins}

    @property
    def identity(self) -> str:
        """The digest of all files."""
        return digest.of_data(sorted([*(p.sha256 for p in self.pins), *(p.sha256 for p in self.parts)]))


@dataclass(frozen=True, slots=True)
class Archives:
    """The archives of one release that make a toolkit."""

    label: str  # of the release: "12.4.1"
    nvcc: str  # the version that its compiler must have: "12.4.131"
    platform: str  # "linux-x86_64"
    needed: tuple[str, ...]  # the archives' names: "cuda_nvcc"
    optional: tuple[str, ...]  # used if the release has them
    url: str  # the folder of redistrib_<label>.json
    projects: Mapping[str, str] = field(default_factory=dict)  # archive -> project on PyPI with its libraries
    pins: tuple[PinnedWheel, ...] = ()  # of libraries in packages of their own

    @property
    def size(self) -> int:
        """Bytes to download: 0 here, as only the release's list has them."""
        return 0

    @property
    def packages(self) -> Mapping[str, str]:
        """The archives' versions: empty here, as only the release's list has them."""
        return {}

    @property
    def packages_file(self) -> str:
        """The file with the projects on PyPI that have the same libraries, and their versions."""
        return VERSIONS


ToolkitFiles = Wheels | Archives


class ToolkitRequest(NamedTuple):
    """The toolkit that a build needs."""

    minor: str  # "13.0"
    libraries: Sequence[str]  # beside the compiler and the runtime: "cufft"
    machine: str  # "x86_64"
    search: Sequence[Path] | None = None  # folders to search for installations; None: the usual ones
    inventory: Inventory | None = None  # content of the build's container image; None: the build runs in none


class Toolkit(NamedTuple):
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
