"""The values that are judged: the images of a build, its origin, and the candidate that each becomes."""

from enum import IntEnum
from typing import NamedTuple, Optional, Union

from .arch import Arch
from .cpu_level import CpuLevel
from .image_kind import ImageKind, kind_of
from .reason import Reason

Version = tuple[int, int]


class Origin(IntEnum):
    """The origin of a build, in the order in which builds are tried."""

    EXPLICIT = 0  # named by a variable of the environment
    USER_BUILD = 1  # compiled by `python -m PACKAGE._gpuforge compile`
    CACHED_BUILD = 2  # sources in the wheel, compiled by NVRTC at first use, kept in the kernel cache
    SHIPPED = 3  # in the wheel
    OPENCL = 4  # sources in the wheel, compiled by an OpenCL device's driver at first use
    CPU = 5  # a library in the wheel, or the caller's own code

    @property
    def label(self) -> str:
        """Its name for people and for JSON: "user build"."""
        return _LABELS[self]


_LABELS = ("environment", "user build", "cached build", "shipped", "OpenCL", "CPU")


class Image(NamedTuple):
    """One image of a file; `about` describes its kind.

    `built_for` is the architecture of GPU code or the level of code for CPUs; for other kinds it is the text of the
    index, "" if nothing was read. `toolkit` is the CUDA version of the compiler that wrote code for NVIDIA's driver;
    `isa` is the PTX ISA, only for PTX. `variable` of the environment names a file of the kind "unread".
    """

    kind: str
    built_for: "Union[Arch, CpuLevel, str]" = ""
    toolkit: Version = (0, 0)
    isa: Optional[Version] = None
    variable: str = ""

    @property
    def about(self) -> ImageKind:
        """Its kind."""
        return kind_of(self.kind)

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "PTX compute_120"."""
        built_for = self.built_for if isinstance(self.built_for, str) else self.built_for.of_image(self.kind)
        return f"{self.about.label} {built_for}".rstrip()


class Build(NamedTuple):
    """One build of a module: its origin, the file (or its folder), and its images.

    `problem` is the reason why it cannot be used at all: a damaged index, a missing file. `failure` is the driver's
    reason when it was last tried. A shipped library has `name`, the object that it was made for, and `compiler`.
    """

    origin: Origin
    place: str
    images: "tuple[Image, ...]" = ()
    problem: Optional[Reason] = None
    failure: Optional[Reason] = None
    wheel: str = ""  # the kernels wheel that it is in; "" for the package's own
    name: str = ""
    compiler: str = ""


CPU = Build(Origin.CPU, "")
HOST_LIBRARY = Image("library", CpuLevel())


class Candidate(NamedTuple):
    """One way to run a kernel: an image of a build, accepted or refused, with the reason.

    `image` is None for the CPU, and for a build without a readable image.
    """

    build: Build
    image: Optional[Image]
    accepted: bool
    reason: Reason

    @property
    def origin(self) -> Origin:
        """The origin of the build."""
        return self.build.origin

    @property
    def label(self) -> str:
        """Its name for people: "cubin sm_80", "CPU", "user build cubin sm_80"."""
        if self.origin is Origin.SHIPPED:
            return " of ".join(filter(None, (self.shipped_image or self.origin.label, self.build.wheel)))
        return f"{self.origin.label} {self.image.label if self.image else ''}".rstrip()

    @property
    def shipped_image(self) -> str:
        """The image of a shipped build, for people: "cubin sm_80"; "" for the only library, or without an image."""
        image = self.image.label if self.image else ""
        return f"{self.build.name} {image}".lstrip() if image not in {"", "library"} else ""
