"""Reads the array in a capsule of DLPack; https://dmlc.github.io/dlpack/latest/c_api.html."""

from __future__ import annotations

import ctypes
from typing import Any

from .strides import refuse_gaps

# functions of their own: the attributes of `pythonapi` are shared with every other package
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_READ_ONLY, _IS_COPIED = 1, 2  # DLPACK_FLAG_BITMASK_…


class DLTensor(ctypes.Structure):
    """An array on a device; the head of DLManagedTensor. `code` is its elements' kind, of `lanes` numbers each."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (  # the head of DLManagedTensorVersioned
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


def writable_tensor_of(array: Any) -> tuple[object, DLTensor, bool]:
    """Return the capsule of an array in the CPU's memory, the array in it, and whether it may be written.

    A capsule before DLPack 1.0 does not say: then it may. Raises what the array's library raises.
    """
    try:
        capsule = array.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:  # its library is older
        capsule = array.__dlpack__()
    if not _is_valid(capsule, b"dltensor_versioned"):
        return capsule, tensor_of(capsule), True
    managed = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
    return capsule, managed.tensor, not managed.flags & (_READ_ONLY | _IS_COPIED)


def tensor_of(capsule: object) -> DLTensor:
    """Return the array in a capsule, which must live as long as it."""
    return DLTensor.from_address(_pointer_of(capsule, b"dltensor"))


def address_of(array: object, tensor: DLTensor) -> int:
    """Return the address of an array; raises ValueError for one with gaps."""
    if tensor.strides:  # NULL: contiguous
        refuse_gaps(array, tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim], 1)
    return int((tensor.data or 0) + tensor.byte_offset)
