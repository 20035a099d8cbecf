"""The back ends, each of which makes kernels of its own kinds of images: a folder for each, and one table of them all.

`ImageKind.loader` is the name of an image's back end. A back end's folder has these functions, and `ahead.py` if
`python -m PACKAGE._gpuforge compile` calls its compiler as a library:

    look(machine, places, env)  this machine's devices or compilers for images in some places, for `Probe.found`;
        None if they were not looked for. Never raises, never hangs
    judge(image, build, here)  the verdict on an image; nothing is opened
    make(request, image, module, place)  a kernel of a file; None if it needs a context of CUDA and there is none.
        Raises Refused, DriverError
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..signature import Entry
from ..values import Origin, Reason, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..arch import Version
    from ..driver import Probe
    from ..values import Build, BuildPlace, Image, KernelName, Module
    from .cuda.kernel import Context, LoadedKernel, Place


class Backend(NamedTuple):
    """A back end: its name, as in `ImageKind.loader`, and its `folder`.

    If it compiles sources at their first use, `family` is that of their toolchains, `source` the kind of image that
    they count as, and `origin` their place in the order. With `into_cache`, `compile` puts their images into the kernel
    cache, not into a user build. `contexts` are those that it takes: CUDA's, or a package's.
    """

    loader: str
    folder: str
    family: str = ""
    source: str = ""
    origin: Origin = Origin.EXPLICIT
    into_cache: bool = False
    contexts: str = ""


_TABLE = (  # in the order in which they look at the machine
    Backend("CUDA", "cuda", contexts="CUDA"),
    Backend("system", "system"),
    Backend("IREE", "iree", contexts="CUDA"),
    Backend("NVRTC", "nvrtc", "nvrtc", "cuda", Origin.CACHED_BUILD, contexts="CUDA"),
    Backend("OpenCL", "opencl", "opencl", "opencl", Origin.OPENCL, into_cache=True, contexts="pyopencl"),
)
BACKENDS = {backend.loader: backend for backend in _TABLE}


def owner_of(context: Any) -> str:
    package = type(context).__module__.partition(".")[0]
    return next((loader for loader, backend in BACKENDS.items() if backend.contexts == package), "")


def implementation(backend: Backend) -> Any:
    try:
        return import_module(f".{backend.folder}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{backend.folder}":
            raise
        return _LeftOut()


class Here(NamedTuple):
    """The target of a judgement: device number `device`, of compute capability `gpu`.

    `obstacle` is the reason why no code runs through NVIDIA's driver, `off` the one why no GPU may be used.
    """

    machine: Probe
    device: int
    gpu: Version
    obstacle: Reason | None
    off: Reason | None


class _LeftOut:
    """A back end that this wheel does not have: it refuses images, which only the user can have brought."""

    def look(self, machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> None:
        """Return nothing."""

    def judge(self, image: Image, build: Build, here: Here) -> Verdict:
        return Verdict(False, Reason("part-left-out"))

    def make(self, request: Request, image: Image, module: Module, place: BuildPlace) -> None:
        """Return nothing: no image was accepted."""


class Request(NamedTuple):
    """A request for a kernel.

    `entry` is looked up in an image by its symbol. `context` is the CUDA context that it is loaded into, `given` the
    caller's argument. `demand` is the only place where it may run, None if its arrays decide; `elsewhere` then loads it
    for another place.
    """

    kernel: KernelName
    machine: Probe
    context: Context | None
    device: int
    given: Any
    env: Mapping[str, str]
    use_cache: bool
    demand: Place | None
    elsewhere: Callable[[Place], LoadedKernel]
    entry: Entry = Entry("", "", None)
    sources: str = ""

    @property
    def name(self) -> str:
        """The kernel's symbol in the image."""
        return self.entry.symbol
