"""Reads arrays in the CPU's memory: their addresses, for kernels that run on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from .dlpack import address_of, tensor_of
from .strides import refuse_gaps

_CPU = 1  # kDLCPU; https://dmlc.github.io/dlpack/latest/c_api.html


def host_address(value: Any, kept: list[Any]) -> int | None:
    """Return the address of an array in the CPU's memory; None for anything else.

    Objects that must live as long as the address are added to `kept`. A read-only buffer is copied, an array of NumPy
    never. Raises ValueError for an array with gaps.
    """
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        if interface.get("strides") is not None:
            _check_strides(value, interface)
        kept.append(value)
        return int(interface["data"][0])
    if hasattr(value, "__dlpack_device__"):
        if value.__dlpack_device__()[0] != _CPU:
            return None
        capsule = value.__dlpack__()
        kept.append(capsule)
        return address_of(value, tensor_of(capsule))
    try:
        view = memoryview(value).cast("B")
    except TypeError:
        return None
    plain = ctypes.c_char * view.nbytes
    buffer = plain.from_buffer_copy(view) if view.readonly else plain.from_buffer(view)
    kept.append(buffer)
    return ctypes.addressof(buffer)


def _check_strides(array: Any, interface: Mapping[str, Any]) -> None:
    """Raise ValueError for an array with gaps, by its `__array_interface__`."""
    size = int(interface["typestr"][2:].partition("[")[0])  # "<f4", "<M8[ns]"
    refuse_gaps(array, interface["shape"], interface["strides"], size)
