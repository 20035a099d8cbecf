"""An array that speaks DLPack alone."""

import ctypes
from typing import Any

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("type", ctypes.c_int), ("id", ctypes.c_int), ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


class Capsuled:
    """Floats of shape (3, 2) at an address; `streams` are those that it was asked for.

    With a `version` it has that of DLPack if it is asked for one, else the one before 1.0. `kept` lives as long as it.
    """

    def __init__(
        self, address: int, device: int = 2, strides: tuple[int, ...] = (), *,
        version: tuple[int, int] | None = None, flags: int = 0, code: int = 2, kept: object = None,
    ) -> None:  # fmt: skip
        self._shape = (ctypes.c_int64 * 2)(3, 2), (ctypes.c_int64 * 2)(*strides)
        shape, given = map(ctypes.addressof, self._shape)
        tensor = _Tensor(
            data=address - 16, type=device, ndim=2, shape=shape, strides=given if strides else None, offset=16,
            code=code, bits=32, lanes=1,
        )  # fmt: skip
        self._managed = _Versioned(
            version=(ctypes.c_uint32 * 2)(*(version or ())), flags=flags, tensor=tensor
        )
        self._version, self._device, self._kept = version, device, kept
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, stream: int | None = None, **options: Any) -> object:
        if options and not self._version:
            raise TypeError("it is older")
        self.streams.append(stream)
        if options:
            return _new(ctypes.addressof(self._managed), b"dltensor_versioned", None)
        return _new(ctypes.addressof(self._managed.tensor), b"dltensor", None)
