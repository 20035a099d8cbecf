"""The back ends: their names, their folders, and what they compile."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..values import Origin


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


_TABLE = (  # in the order in which they look at the machine
    Backend("CUDA", "cuda"),
    Backend("system", "system"),
    Backend("IREE", "iree"),
    Backend("NVRTC", "nvrtc", "nvrtc", "cuda", Origin.CACHED_BUILD),
    Backend("OpenCL", "opencl", "opencl", "opencl", Origin.OPENCL, into_cache=True, contexts="pyopencl"),
)
BACKENDS = {backend.loader: backend for backend in _TABLE}


def backend_of(family: str) -> Backend | None:
    """Return the back end that compiles the sources of a family of toolchains at their first use; None without one."""
    return next((backend for backend in BACKENDS.values() if family and backend.family == family), None)


def owner_of(context: Any) -> str:
    """Return the loader that a caller's context belongs to; "" for CUDA's, and for None."""
    package = type(context).__module__.partition(".")[0]
    return next((loader for loader, backend in BACKENDS.items() if backend.contexts == package), "")
