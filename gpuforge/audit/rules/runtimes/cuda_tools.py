"""CUDA packages that are compilers and tools, not runtimes."""

from __future__ import annotations

import re

from gpuforge.cuda.suffix import without_suffix

# Compilers and tools: those of one major beside the runtime of another do no harm.
_LONE = r"nvidia-(cuda-)?(nvcc|nvvm|nvrtc|nvjitlink|nvfatbin|nvtx|cupti)"


def is_tool(package: str) -> bool:
    """Say whether a CUDA package has a compiler or a tool: what runs on the GPU has no part in it."""
    return re.fullmatch(_LONE, without_suffix(package)) is not None
