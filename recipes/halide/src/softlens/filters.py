"""The filters as functions of NumPy arrays."""

from __future__ import annotations

import ctypes
import threading
from functools import cache

import numpy

from softlens._gpuforge import KernelLibrary
from softlens.buffers import Buffer, is_on_gpu

_library = KernelLibrary.shipped("filters")  # the object's name in gpuforge.toml
_last = threading.local()


class FilterError(RuntimeError):
    """A filter failed; the text is Halide's, with the driver's error in it."""


def blur(image: numpy.ndarray) -> numpy.ndarray:
    """Return the mean of the 3 x 3 pixels around each one, for a two-dimensional array, as float32."""
    return _call("blur", image)


def unsharp(image: numpy.ndarray, amount: float = 1.0) -> numpy.ndarray:
    """Return a sharpened image, for a two-dimensional array, as float32."""
    return _call("unsharp", image, ctypes.c_float(amount))


def where() -> str:
    """Return where the filters run: "gpu" or "cpu"."""
    return "gpu" if is_on_gpu(_opened()) else "cpu"


def _call(name: str, image: numpy.ndarray, *arguments: object) -> numpy.ndarray:
    source = numpy.ascontiguousarray(image, dtype=numpy.float32)
    if source.ndim != 2:
        raise ValueError(f"expected a two-dimensional image, not one with {source.ndim} dimensions")
    library, result = _opened(), numpy.empty_like(source)
    with Buffer(library, source, filled=True) as read, Buffer(library, result, filled=False) as written:
        _check(library[name](read.pointer, *arguments, written.pointer), name)
        _check(written.to_host(), name)
    return result


@cache
def _opened() -> ctypes.CDLL:
    """Open the library for this machine. Its errors become exceptions: Halide's own handler ends the process."""
    library = _library.load()
    library.halide_set_error_handler(_on_error)
    return library


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
def _on_error(context: object, message: bytes) -> None:
    _last.message = message.decode(errors="replace").strip()


def _check(code: int, name: str) -> None:
    if code:
        raise FilterError(f"{name}: {getattr(_last, 'message', '')} (Halide's error {code})")
