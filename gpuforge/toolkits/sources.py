"""The exact files of a toolkit to fetch: wheels of PyPI, with parts of Debian's packages, or NVIDIA's archives."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuforge import digest
from gpuforge.toolkits.debian_parts import DebianPart
from gpuforge.toolkits.pins import PinnedWheel

VERSIONS = (
    "packages.json"  # in a tree of archives: the wheels of PyPI with the same libraries, and their versions
)


@dataclass(frozen=True, slots=True)
class Wheels:
    """The wheels of one toolkit."""

    pins: tuple[PinnedWheel, ...]
    packages_file: str = ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(pin.size for pin in self.pins)

    @property
    def packages(self) -> Mapping[str, str]:
        """The projects with their versions."""
        return {pin.package: pin.version for pin in self.pins}


@dataclass(frozen=True, slots=True)
class PartsAndWheels:
    """The parts of Debian's packages with the compiler, and the wheels with the rest."""

    parts: tuple[DebianPart, ...]
    pins: tuple[PinnedWheel, ...]
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
        return digest.of_data(
            sorted([*(pin.sha256 for pin in self.pins), *(part.sha256 for part in self.parts)])
        )


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


ToolkitFiles = Wheels | PartsAndWheels | Archives
