"""The back ends, each of which makes kernels of its own kinds of images: a folder for each, and one table of them all.

`ImageKind.loader` is the name of an image's back end. A back end's folder has the functions of `Implementation`, and
`ahead.py` if `python -m PACKAGE._gpuforge compile` calls its compiler as a library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..signature import Entry
from ..values import Reason, Verdict
from .table import BACKENDS, Backend, backend_of, owner_of

__all__ = ["BACKENDS", "Backend", "Here", "Request", "ahead", "backend_of", "implementation", "owner_of"]
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..index import BuildPlace, Module, Wanted
    from ..machine import Probe
    from ..recipe import Recipe, UserToolchain
    from ..userbuild.compilers import Absent, CompileInputs, Compiler
    from ..values import Build, Image, Version
    from .cuda.context import Context, Place
    from .cuda.kernel import LoadedKernel

    class Implementation(Protocol):
        """The functions in each back end's folder."""

        def look(self, machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> object:
            """Return this machine's devices or compilers for images in some places, None if they were not looked for.

            Never raises, and never hangs. `Probe.found` has the result for `judge` and `make`.
            """

        def judge(self, image: Image, build: Build, here: Here) -> Verdict:
            """Return whether an image can run, and why. Nothing is opened."""

        def make(self, request: Request, image: Image, module: Module, place: BuildPlace) -> Any:
            """Return a kernel of a file; None if it needs a context of CUDA and there is none.

            Raises Refused, DriverError.
            """

    class Ahead(Protocol):
        """The module `ahead` of a back end whose compiler is called as a library."""

        def find(self, toolchain: UserToolchain, here: CompileInputs, path: str) -> Compiler | Absent:
            """Return the compiler of a toolchain, the file at `path` if one is given, or why there is none."""

        def prepare(self, toolchain: UserToolchain, recipe: Recipe, here: CompileInputs) -> str:
            """Compile sources into the kernel cache, and return the device; raises Stopped. Only with `into_cache`."""


def implementation(backend: Backend) -> Implementation:
    """Return the functions of a back end, imported at their first use; a wheel has those that its kernels need."""
    try:
        found: Implementation = import_module(f".{backend.folder}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{backend.folder}":
            raise
        return _LeftOut()
    return found


def ahead(backend: Backend) -> Ahead:
    """Return the functions of a back end for `compile`."""
    found: Ahead = import_module(f".{backend.folder}.ahead", __name__)
    return found


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
