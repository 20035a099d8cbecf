"""gpuforge's own toolchains, by the names that manifests use: where each is, and what says what it compiles for."""

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

GROUP = "gpuforge.toolchains"  # the entry points of plug-ins


class Own(NamedTuple):
    """A toolchain of gpuforge: its module in `gpuforge/toolchains`, and its name there.

    `compiles_for` is the key that says which GPUs: `[cuda.*] archs`, or `[toolchains.*] targets`; "devices" are those
    that it meets on users' machines. `makes` are the kinds of user-compiled objects that it can make. What one that
    `needs_cuda` compiles is for one CUDA version. `keys` are those of `[toolchains.*]` that no other compiler takes.
    `refuses_cpu` is why its objects take no `cpu`; "" where they do, or where its `targets` list the levels. `about` is
    what the manifest's reference has of it.
    """

    place: str
    compiles_for: Literal["archs", "targets", "devices"] = "archs"
    makes: Collection[str] = ("library", "module")
    needs_cuda: bool = False
    keys: Collection[str] = ()
    refuses_cpu: str = ""
    about: str = ""


OWN: Mapping[str, Own] = {
    "g++": Own("host_compilers:GXX_TOOLCHAIN"),
    "clang++": Own("host_compilers:CLANGXX_TOOLCHAIN"),
    "nvcc": Own("nvcc:TOOLCHAIN", needs_cuda=True, refuses_cpu="nvcc compiles it for GPUs"),
    "nvc++": Own("host_compilers:NVCXX_TOOLCHAIN", makes=("library",)),
    "nvrtc": Own(
        "user_compilers:NVRTC",
        makes=("module",),
        needs_cuda=True,
        about="CUDA's runtime compiler, from PyPI: user-compiled objects of kind `module`",
    ),
    "opencl": Own(
        "user_compilers:OPENCL",
        "devices",
        makes=("module",),
        keys=("devices", "extensions"),
        about="through pyopencl: user-compiled objects of kind `module`",
    ),
    "halide": Own("halide:TOOLCHAIN", "targets", makes=(), about="from PyPI: fallbacks of kind `library`"),
    "iree": Own("iree:TOOLCHAIN", "targets", makes=(), about="from PyPI: fallbacks of kind `module`"),
    "command": Own(
        "user_compilers:COMMAND",
        makes=("library",),
        keys=("command", "product"),
        refuses_cpu="a command sets its own flags",
        about="any program, called as `command` describes: on the user's machine, or for a fallback in the build "
        "environment",
    ),
}


def compiles_for(name: str) -> str:
    """Return what says which GPUs a toolchain compiles for; plug-ins have `targets`."""
    return OWN[name].compiles_for if name in OWN else "targets"


def needs_cuda(name: str) -> bool:
    """Return whether a toolchain compiles for one CUDA version, whose toolkit it needs."""
    return name in OWN and OWN[name].needs_cuda


def makes(name: str, kind: str) -> bool:
    """Return whether a toolchain can make user-compiled objects of a kind; a plug-in's parts say so themselves."""
    return name not in OWN or kind in OWN[name].makes
