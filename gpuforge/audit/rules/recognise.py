"""Recognises wheels and libraries of NVIDIA, and objects for one of several CUDA versions or frameworks."""

import re

from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, libraries, sonames
from gpuforge.cuda.carriers import frameworks
from gpuforge.cuda.suffix import without_suffix


def is_nvidia_wheel(wheel: WheelFacts) -> bool:
    """Return whether a wheel is NVIDIA's own, with libraries of a CUDA toolkit or based on them."""
    return wheel.project in carriers.nvidia_packages()


def is_nvidia_library(graph: LinkGraph, binary: ElfObject) -> bool:
    """Return whether an object is a library of NVIDIA, by its name or its wheel."""
    if libraries.is_driver(binary.name):  # it calls the runtime, and has its names
        return True
    plain = [sonames.plain_name(name) for name in (binary.name, binary.soname)]
    if any(package_tables.of_toolkit(name) for name in plain):  # libnvjpeg.so.10, too, which is in no package
        return True
    if any(
        library.package in carriers.nvidia_packages()
        for name in plain
        for library in package_tables.candidates(name)
    ):
        return True
    wheel = graph.wheel(binary.wheel)
    return is_nvidia_wheel(wheel)


_VARIANT = r"(cu(da)?|rocm|xpu)[-_]?\d+"


def variant_family(binary: ElfObject) -> str:
    """Return the common name of objects for different CUDA versions: "libx_#.so" for libx_cuda118.so.

    "" for an object without such a version in its name: it is not one of several.
    """
    family = re.sub(_VARIANT, "#", binary.name)
    return family if family != binary.name else ""


def is_for_other_framework(graph: LinkGraph, binary: ElfObject) -> bool:
    """Return whether an object is only for users of a framework: libx_torch_ops.so of a project x."""
    return bool(other_framework(graph, binary))


def other_framework(graph: LinkGraph, binary: ElfObject) -> str:
    """Return the framework that an object has in its name, if its project has not: "torch"; "" for other objects."""
    project = graph.wheel(binary.wheel).project
    named = (each.package for each in frameworks() if each.is_in(binary.name) and not each.is_in(project))
    return next(named, "")


def is_tool(package: str) -> bool:
    """Return whether a CUDA package is a compiler or tool, whose major may differ from that of the runtimes."""
    return without_suffix(package) in libraries.tool_packages()
