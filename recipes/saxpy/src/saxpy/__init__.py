"""a * x + y in single precision: on the GPU where a kernel of this wheel fits it, else on the CPU."""

from __future__ import annotations

from array import array
from ctypes import c_float, c_ulonglong
from typing import Any

from . import _core

try:
    from ._gpuforge import KernelSet, KernelUnavailable
except ModuleNotFoundError:  # `pip install .`: built without gpuforge
    _kernels = _user_ops = None
else:
    _kernels = KernelSet.shipped("default-kernels")
    _user_ops = KernelSet.shipped("user-ops")

__all__ = ["apply", "backend", "explain", "saxpy"]

_THREADS = 256  # in a block
_MOST_BLOCKS = 4096  # enough to fill any GPU; the kernel loops over what is left


def saxpy(a: float, x: Any, y: Any) -> Any:
    """Return a * x + y: an `array("f")` for buffers of C floats (`array("f")`, NumPy float32, …), and an array of
    the same kind for arrays of CuPy or torch, on their GPU and in their current stream.

    Raises TypeError or ValueError for other arrays, `_gpuforge.DriverError` when the GPU fails at its work.
    """
    return _compute(_kernel(), a, x, y)


def apply(a: float, x: Any, y: Any) -> Any:
    """Return the operation of `mod/op.h`, which users change: on whichever back end `user-ops` has here.

    Takes and raises what `saxpy` does, and NotImplementedError where the wheel was built without gpuforge.
    """
    if _user_ops is None:
        raise NotImplementedError("this wheel was built without gpuforge: it has no user-ops")
    return _compute(_user_ops.function("apply"), a, x, y)


def backend() -> str:
    """Return where `saxpy` computes: "cuda" or "cpu"."""
    return "cpu" if _kernel() is None else "cuda"


def explain() -> str:
    """Say in a few lines for people which kernels this wheel has, and why each is used or refused here."""
    if _kernels is None or _user_ops is None:
        return "no kernels: this wheel was built without gpuforge, so saxpy computes on the CPU"
    return f"{_kernels.explain()}\n{_user_ops.explain()}"


def _kernel() -> Any:
    """Return the kernel, or None to compute on the CPU. Cheap: a loaded module stays loaded."""
    if _kernels is None:
        return None
    try:
        return _kernels.function("saxpy")
    except KernelUnavailable:
        return None


def _compute(kernel: Any, a: float, x: Any, y: Any) -> Any:
    stay = kernel is not None and hasattr(y, "__cuda_array_interface__")  # arrays of CuPy or torch
    xs, ys = (x, y) if stay else (_floats("x", x), _floats("y", y))
    if len(xs) != len(ys):
        raise ValueError(f"x has {len(xs)} numbers and y has {len(ys)}")
    blocks, numbers = min(_MOST_BLOCKS, len(ys) // _THREADS + 1), (c_ulonglong(len(ys)), c_float(a))
    result = ys * 1 if stay else array("f", bytes(ys.nbytes))
    if stay:
        kernel.launch(blocks, _THREADS, *numbers, xs, result)
    elif kernel is None:
        _core.saxpy(a, xs, ys, result)
    else:
        with kernel.upload(xs) as device_x, kernel.upload(ys) as device_y:
            kernel.launch(blocks, _THREADS, *numbers, device_x, device_y)
            device_y.read(result)
    return result


def _floats(name: str, buffer: Any) -> memoryview:
    view = memoryview(buffer)
    if view.format != "f" or view.ndim != 1 or not view.c_contiguous:
        raise TypeError(f"{name} must be a one-dimensional, contiguous buffer of C floats")
    return view
