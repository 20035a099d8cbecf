"""Arrays as Halide sees them: `halide_buffer_t` of HalideRuntime.h."""

from __future__ import annotations

import ctypes

import numpy

_FLOAT, _HOST_DIRTY = 2, 1


class _Dimension(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("min", "extent", "stride")] + [("flags", ctypes.c_uint32)]


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_uint64),
        ("interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(_Dimension)),
        ("padding", ctypes.c_void_p),
    ]


class Buffer:
    """A contiguous float32 array for Halide. What it has on the GPU is freed at the end of the `with` block.

    `filled` says that the array has content, which is copied to the GPU when a pipeline there reads it.
    """

    def __init__(self, library: ctypes.CDLL, array: numpy.ndarray, *, filled: bool) -> None:
        self._library = library
        self._array = array  # lives as long as its address is in use
        strides = [stride // array.itemsize for stride in array.strides]
        rows = zip(
            reversed(array.shape), reversed(strides), strict=True
        )  # Halide's first dimension is the innermost
        self._dim = (_Dimension * array.ndim)(*(_Dimension(0, extent, stride) for extent, stride in rows))
        self._buffer = _Buffer(
            host=array.ctypes.data,
            flags=_HOST_DIRTY if filled else 0,
            code=_FLOAT,
            bits=32,
            lanes=1,
            dimensions=array.ndim,
            dim=self._dim,
        )
        self.pointer = ctypes.byref(self._buffer)

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *error: object) -> None:
        self._library.halide_device_free(None, self.pointer)

    def to_host(self) -> int:
        """Copy what the GPU wrote into the array; return Halide's error code."""
        return int(self._library.halide_copy_to_host(None, self.pointer))


def is_on_gpu(library: ctypes.CDLL) -> bool:
    """Return whether a library was compiled for GPUs."""
    return hasattr(library, "halide_cuda_device_interface")
