"""What only some launches need: the limits that a refused one breaks, much shared memory, cooperation and clusters.

Attributes of devices, functions and launches: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
"""

from __future__ import annotations

import ctypes
from typing import Any

from .arguments import Frame
from .context import Context
from .dimensions import three

_BLOCK_THREADS, _SHARED_OPTIN = 1, 97  # CUdevice_attribute
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_KERNEL_THREADS, _STATIC_SHARED, _REGISTERS = 0, 1, 4  # CUfunction_attribute
_DYNAMIC_SHARED, _LARGE_CLUSTERS = 8, 14
_PORTABLE_CLUSTER = 8  # blocks, on every GPU that has clusters
_AXES = (("grid", "x", 5), ("grid", "y", 6), ("grid", "z", 7),
         ("block", "x", 2), ("block", "y", 3), ("block", "z", 4))  # fmt: skip


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class Attributes:
    """The attributes of a launch: whether its blocks run at the same time, and the blocks in a cluster."""

    def __init__(self, cooperative: bool, cluster: tuple[int, int, int] | None) -> None:
        self._cluster = cluster
        values: list[tuple[int, tuple[int, ...]]] = [(_COOPERATIVE, (1,))] if cooperative else []
        values += [(_CLUSTER, cluster)] if cluster else []
        self._data = (_Attribute * len(values))(
            *(_Attribute(number, 0, (ctypes.c_uint * 16)(*value)) for number, value in values)
        )

    def apply(self, context: Context, function: int, frame: Frame) -> None:
        """Add them to a launch; raises ValueError with a driver before CUDA 11.8, DriverError."""
        if context.driver.c.cuLaunchKernelEx is None:
            raise ValueError("cooperative launches and clusters need a driver for CUDA 11.8 or newer")
        if self._cluster and self._cluster[0] * self._cluster[1] * self._cluster[2] > _PORTABLE_CLUSTER:
            with context.current():
                context.driver.call("cuFuncSetAttribute", function, _LARGE_CLUSTERS, 1)
        frame.add_attributes(self._data)


def attributes_of(cooperative: bool, cluster: Any) -> Attributes:
    """Return the attributes of a launch; raises TypeError, ValueError."""
    return Attributes(cooperative, None if cluster is None else three(cluster, "cluster"))


def raise_shared(context: Context, name: str, function: int, wanted: int) -> int:
    """Let a kernel have more dynamic shared memory than 48 KiB with its static one, and return how many bytes.

    Raises ValueError if the device has less, DriverError.
    """
    driver = context.driver
    with context.current():
        static = driver.attribute(function, _STATIC_SHARED)
        most = driver.device_attribute(context.ordinal, _SHARED_OPTIN) - static
        if wanted > most:
            device = driver.devices[context.ordinal]
            own = f" beside its {static} bytes of static shared memory" if static else ""
            raise ValueError(
                f"shared {wanted}: a block of {name} can have at most {most} bytes{own} on GPU {context.ordinal}, "
                f"{device.name}"
            )
        driver.call(
            "cuFuncSetAttribute", function, _DYNAMIC_SHARED, most
        )  # other launches of it may want more
    return most


def limit_broken(context: Context, name: str, function: int, frame: Frame) -> str:
    """Return the limit that a refused launch breaks, and whether it is the device's or the kernel's; "" for none."""
    driver, dims = context.driver, (ctypes.c_uint * 7).from_buffer(frame.buffer)
    gpu = f"GPU {context.ordinal}, {driver.devices[context.ordinal].name}"
    for (what, axis, attribute), given in zip(_AXES, dims):
        most = driver.device_attribute(context.ordinal, attribute)
        if given > most:
            return f"{what} {axis} is {given}, and {gpu}, allows {most}"
    threads = dims[3] * dims[4] * dims[5]
    most = driver.device_attribute(context.ordinal, _BLOCK_THREADS)
    if threads > most:
        return f"a block has {threads} threads, and {gpu}, allows {most}"
    with context.current():
        most, registers = (driver.attribute(function, each) for each in (_KERNEL_THREADS, _REGISTERS))
    if threads > most:
        return (
            f"a block has {threads} threads, and {name}, with {registers} registers for each, allows {most}"
        )
    return ""
