"""CUDA packages that are compilers and tools, not runtimes."""

from __future__ import annotations

from gpuforge.cuda import libraries
from gpuforge.cuda.suffix import without_suffix


def is_tool(package: str) -> bool:
    """Return whether a CUDA package is a compiler or tool, whose major may differ from that of the runtimes."""
    return without_suffix(package) in libraries.tool_packages()
