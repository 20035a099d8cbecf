"""CUDA packages that are compilers and tools, not runtimes."""

from __future__ import annotations

from gpuforge.cuda import libraries
from gpuforge.cuda.suffix import without_suffix


def is_tool(package: str) -> bool:
    """Say whether a CUDA package has a compiler or a tool: that of one major does no harm beside another's runtime."""
    return without_suffix(package) in libraries.tool_packages()
