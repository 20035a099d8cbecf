"""Recognises the wheels and libraries that are NVIDIA's own."""

from __future__ import annotations

from gpuforge.audit.link import package_tables
from gpuforge.audit.link.graph import LinkGraph
from gpuforge.audit.model import WheelFacts
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda import carriers, libraries, sonames


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
