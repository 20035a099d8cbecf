"""Recognises objects that are built for one of several CUDA versions or frameworks."""

from __future__ import annotations

import re

from gpuforge.audit.link.graph import LinkGraph
from gpuforge.binary.facts import ElfObject
from gpuforge.cuda.frameworks import frameworks

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
