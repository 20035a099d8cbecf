"""The back ends, each of which makes kernels of its own kinds of images: a folder for each, and one table of them.

`ImageKind.loader` is the name of an image's back end. A back end's folder has the functions of `Implementation`, and
`ahead.py` if `python -m PACKAGE._gpuforge compile` calls its compiler as a library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..image import Origin
from ..reason import Reason, Verdict
from ..signature import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, Union

    from ..context import Context, Place
    from ..image import Build, Image, Version
    from ..index import Module
    from ..kernel import Kernel, LoadedKernel
    from ..look import BuildPlace
    from ..machine import Probe
    from ..names import Wanted
    from ..recipe import Recipe, UserToolchain
    from ..userbuild.compilers import Absent, Compiler
    from ..userbuild.inputs import CompileInputs
    from .iree.kernel import IreeKernel
    from .opencl.kernel import OpenClKernel
    from .system.kernel import HostKernel

    AnyKernel = Union[Kernel, HostKernel, IreeKernel, OpenClKernel]

    class Implementation(Protocol):
        """The functions in each back end's folder."""

        def look(self, machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> object:
            """Return this machine's devices or compilers for images in some places, None if they were not looked for.

            Never raises, and never hangs. `Probe.found` has the result for `judge` and `make`.
            """

        def judge(self, image: Image, build: Build, here: Here) -> Verdict:
            """Return whether an image can run, and why. Nothing is opened."""

        def make(self, request: Request, image: Image, module: Module, place: BuildPlace) -> AnyKernel | None:
            """Return a kernel of a file; None if it needs a context of CUDA and there is none.

            Raises Refused, DriverError.
            """

    class Ahead(Protocol):
        """The module `ahead` of a back end whose compiler is called as a library."""

        def find(self, toolchain: UserToolchain, here: CompileInputs, path: str) -> Compiler | Absent:
            """Return the compiler of a toolchain, the file at `path` if one is given, or why there is none."""

        def prepare(self, toolchain: UserToolchain, recipe: Recipe, here: CompileInputs) -> str:
            """Compile sources into the kernel cache, and return the device; raises Stopped. Only with `into_cache`."""


class Backend(NamedTuple):
    """A back end: its name, as in `ImageKind.loader`, and its `folder`.

    If it compiles sources at their first use, `family` is that of their toolchains, `source` the kind of image that
    they count as, and `origin` their place in the order. With `into_cache`, `compile` puts their images into the kernel
    cache, not into a user build. `contexts` is the package whose contexts it loads kernels into.
    """

    loader: str
    folder: str
    family: str = ""
    source: str = ""
    origin: Origin = Origin.EXPLICIT
    into_cache: bool = False
    contexts: str = ""

    @property
    def implementation(self) -> Implementation:
        """Its functions, imported at their first use; a wheel has those back ends that its kernels need."""
        try:
            found: Implementation = import_module(f".{self.folder}", __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{self.folder}":
                raise
            return _LeftOut()
        return found

    @property
    def ahead(self) -> Ahead:
        """Its functions for `compile`."""
        found: Ahead = import_module(f".{self.folder}.ahead", __name__)
        return found


_TABLE = (  # in the order in which they look at the machine
    Backend("CUDA", "cuda"),
    Backend("system", "system"),
    Backend("IREE", "iree"),
    Backend("NVRTC", "nvrtc", "nvrtc", "cuda", Origin.CACHED_BUILD),
    Backend("OpenCL", "opencl", "opencl", "opencl", Origin.OPENCL, into_cache=True, contexts="pyopencl"),
)
BACKENDS = {backend.loader: backend for backend in _TABLE}


class Here(NamedTuple):
    """The target of a judgement: device number `device` of a machine, of compute capability `gpu`.

    `obstacle` is the reason why no code runs through NVIDIA's driver; `gpu` is then (0, 0). `off` is the reason why no
    GPU may be used.
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
        """Refuse an image."""
        return Verdict(False, Reason("part-left-out"))

    def make(self, request: Request, image: Image, module: Module, place: BuildPlace) -> None:
        """Return nothing: no image was accepted."""


class Request(NamedTuple):
    """A request for a kernel, its context, and whether the kernel cache is used.

    `entry` is looked up in an image by its symbol. `context` is the CUDA context that it is loaded into, None if there
    is none; `given` is the caller's argument. `demand` is the only place where it may run, None if its arrays decide;
    `elsewhere` then loads it for another place. `sources` is the folder where the set's sources are, if the wheel has
    them.
    """

    wanted: Wanted
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


def backend_of(family: str) -> Backend | None:
    """Return the back end that compiles the sources of a family of toolchains at their first use; None without one."""
    return next((backend for backend in BACKENDS.values() if family and backend.family == family), None)


def owner_of(context: Any) -> str:
    """Return the loader that a caller's context belongs to; "" for CUDA's, and for None."""
    package = type(context).__module__.partition(".")[0]
    return next((loader for loader, backend in BACKENDS.items() if backend.contexts == package), "")
