"""gpuforge's own toolchains, by the names that manifests use: where each is, and what says what it compiles for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

GROUP = "gpuforge.toolchains"  # the entry points of plug-ins


class Own(NamedTuple):
    """A toolchain of gpuforge: its module in `gpuforge/toolchains`.

    `compiles_for` is the key that says which GPUs: `[cuda.*] archs`, or `[toolchains.*] targets`; "devices" are those
    that it meets on users' machines.
    """

    module: str
    compiles_for: Literal["archs", "targets", "devices"] = "archs"


OWN: Mapping[str, Own] = {
    "g++": Own("gxx"),
    "clang++": Own("clangxx"),
    "nvcc": Own("nvcc"),
    "nvc++": Own("nvcxx"),
    "nvrtc": Own("nvrtc"),
    "opencl": Own("opencl", "devices"),
    "halide": Own("halide", "targets"),
    "iree": Own("iree", "targets"),
    "command": Own("command"),
}


def compiles_for(name: str) -> str:
    """Return what says which GPUs a toolchain compiles for; plug-ins have `targets`."""
    return OWN[name].compiles_for if name in OWN else "targets"
