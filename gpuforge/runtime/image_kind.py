"""The kinds of images in kernel sets: their targets, and their loaders."""

from typing import NamedTuple


class ImageKind(NamedTuple):
    """A kind of image.

    `loader` makes kernels of it: "CUDA" (the driver), "NVRTC", "OpenCL", "IREE" with one of its drivers
    (`iree_driver`), or "system" (the linker); "" if it cannot be loaded without a further step. `built_for` is the kind
    of its target: "GPU" (an architecture), "CPU" (a level), or "" (any device of its loader). Without `of_module` it is
    not in the index of a set of modules. With `of_toolkit` a CUDA toolkit made it, whose version the index has.
    """

    label: str  # its name for people
    loader: str = ""
    built_for: str = ""
    has_ptx: bool = False
    iree_driver: str = ""
    of_module: bool = True
    of_toolkit: bool = True


KINDS = {
    "cubin": ImageKind("cubin", "CUDA", "GPU"),
    "ptx": ImageKind("PTX", "CUDA", "GPU", has_ptx=True),
    "iree-cuda": ImageKind("IREE cuda", "IREE", "GPU", has_ptx=True, iree_driver="cuda", of_toolkit=False),
    "iree-vulkan": ImageKind("IREE vulkan", "IREE", iree_driver="vulkan", of_toolkit=False),
    "iree-cpu": ImageKind("IREE CPU", "IREE", "CPU", iree_driver="local-task", of_toolkit=False),
    # a file that an environment variable names, and sources
    "unread": ImageKind("file", "CUDA", of_module=False),
    "cuda": ImageKind("CUDA source", "NVRTC", of_module=False),
    "opencl": ImageKind("source", "OpenCL", of_module=False),
    "library": ImageKind("library", "system", "CPU", of_module=False, of_toolkit=False),
}


def kind_of(name: str) -> ImageKind:
    """Return the kind with a name in an index; an unknown one, such as "lto-ir", has no loader."""
    return KINDS.get(name) or ImageKind(name)
