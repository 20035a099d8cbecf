"""The softmax of each row of a matrix: by one of IREE's devices where there is one, else by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from ._gpuforge import KernelSet, KernelUnavailable
except ModuleNotFoundError:  # `pip install .`: built without gpuforge
    _kernels = _double = None
else:
    _kernels = KernelSet.shipped("kernels")
    _double = KernelSet.shipped("double-kernels")

__all__ = ["backend", "explain", "scale", "softmax"]


def softmax(x: Any) -> Any:
    """Return the softmax of each row of `x`, an array of two dimensions, in single precision."""
    matrix = np.ascontiguousarray(x, "f4")
    result = np.empty_like(matrix)
    kernel = _kernel(_kernels, "softmax") if matrix.size else None
    if kernel is None:
        exponential = np.exp(matrix - matrix.max(axis=1, keepdims=True, initial=-np.inf))
        return exponential / exponential.sum(axis=1, keepdims=True)
    kernel.launch(1, 1, matrix, result)  # IREE divides the work itself
    return result


def scale(a: float, y: Any) -> None:
    """Multiply a contiguous array of doubles by `a`, in place."""
    kernel = _kernel(_double, "scale") if y.size else None
    if kernel is None:
        y *= a
        return
    kernel.launch(1, 1, np.float64(a), y)


def backend() -> str:
    """Return where `softmax` computes: "cuda", "vulkan" or "local-task", drivers of IREE's, or "numpy"."""
    kernel = _kernel(_kernels, "softmax")
    return "numpy" if kernel is None else str(kernel.driver)


def explain() -> str:
    """Say in a few lines which devices IREE has here, and which modules of this wheel are used or refused, and why."""
    if _kernels is None or _double is None:
        return "no kernels: this wheel was built without gpuforge"
    return f"{_kernels.explain()}\n{_double.explain()}"


def _kernel(kernels: Any, name: str) -> Any:
    """Return a kernel, None to compute with NumPy. Cheap: what is loaded stays loaded."""
    if kernels is None:
        return None
    try:
        return kernels.function(name)
    except KernelUnavailable:
        return None
