"""Reads the array in a capsule of DLPack; https://dmlc.github.io/dlpack/latest/c_api.html."""

from __future__ import annotations

import ctypes

from .strides import refuse_gaps

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


class DLTensor(ctypes.Structure):
    """An array on a device; the head of DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def tensor_of(capsule: object) -> DLTensor:
    """Return the array in a capsule, which must live as long as it."""
    return DLTensor.from_address(_pointer_of(capsule, b"dltensor"))


def address_of(array: object, tensor: DLTensor) -> int:
    """Return the address of an array; raises ValueError for one with gaps."""
    if tensor.strides:  # NULL: contiguous
        refuse_gaps(array, tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim], 1)
    return int((tensor.data or 0) + tensor.byte_offset)
