"""The NVIDIA driver, opened with dlopen when first needed; a machine without one is an answer, not an error.

Functions, types and codes: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from .errors import DriverError

LIBRARY = "libcuda.so.1"

_OUT = POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_OUT,),
    "cuModuleLoadDataEx": (_OUT, c_void_p, c_uint, POINTER(c_int), _OUT),
    "cuModuleGetFunction": (_OUT, c_void_p, c_char_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, _OUT, _OUT),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_LOG_BUFFER, _LOG_BUFFER_SIZE = 5, 6  # CUjit_option: CU_JIT_ERROR_LOG_BUFFER and its size in bytes
_LOG_BYTES = 8192


@dataclass(frozen=True)
class NoDriver:
    """The driver cannot be used; `reason` says why."""

    reason: str


class Driver:
    """An initialised driver of this process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.pid = os.getpid()
        for name, argtypes in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = argtypes
            function.restype = c_int

    def call(self, name: str, *args: Any) -> None:
        """Call one driver function; raises DriverError, with the driver's own words, unless it returns 0."""
        code = getattr(self._library, name)(*args)
        if code:
            raise self._error(name, code)

    def version(self) -> tuple[int, int]:
        """Return the newest CUDA version that the driver supports, as (major, minor)."""
        value = c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return value.value // 1000, value.value % 1000 // 10

    def device_count(self) -> int:
        """Return how many devices this process may see (CUDA_VISIBLE_DEVICES counts)."""
        value = c_int()
        self.call("cuDeviceGetCount", ctypes.byref(value))
        return value.value

    def device_name(self, ordinal: int) -> str:
        """Return the name that the driver gives a device: "NVIDIA H200"."""
        buffer = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", buffer, len(buffer), self.device(ordinal))
        return buffer.value.decode(errors="replace")

    def device_capability(self, ordinal: int) -> tuple[int, int]:
        """Return a device's compute capability as (major, minor)."""
        device = self.device(ordinal)
        pair = []
        for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
            value = c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            pair.append(value.value)
        return pair[0], pair[1]

    def device(self, ordinal: int) -> int:
        """Return the CUdevice handle of a device number."""
        handle = c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        return handle.value

    def load_module(self, data: bytes) -> int:
        """Load a fatbin, cubin or PTX into the current context; the error carries the compiler's log."""
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_LOG_BUFFER, _LOG_BUFFER_SIZE)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        handle = c_void_p()
        image = ctypes.create_string_buffer(data)  # adds the NUL that PTX text must end with
        code = self._library.cuModuleLoadDataEx(ctypes.byref(handle), image, len(options), options, values)
        if code:
            raise self._error("cuModuleLoadDataEx", code, log.value.decode(errors="replace").strip())
        return handle.value or 0

    def _error(self, call: str, code: int, log: str = "") -> DriverError:
        words = []
        for function, unknown in (
            ("cuGetErrorName", "unknown error"),
            ("cuGetErrorString", "no description"),
        ):
            text = c_char_p()
            failed = getattr(self._library, function)(code, ctypes.byref(text))
            words.append(unknown if failed or not text.value else text.value.decode(errors="replace"))
        return DriverError(call, code, words[0], words[1], log)


_lock = threading.Lock()
_drivers: dict[str, Driver] = {}


def open_driver(library: str = LIBRARY) -> Driver | NoDriver:
    """Open and initialise the driver; raises nothing.

    A driver that opened is kept for the life of the process. A failure is not: the next call tries again.
    """
    with _lock:
        driver = _drivers.get(library)
        if driver is None:
            opened = _open(library)
            if isinstance(opened, NoDriver):
                return opened
            driver = _drivers[library] = opened
    if driver.pid != os.getpid():
        return NoDriver("this process was forked after its parent used the GPU; start workers with 'spawn'")
    return driver


def _open(library: str) -> Driver | NoDriver:
    try:
        driver = Driver(ctypes.CDLL(library))
    except OSError as error:
        return NoDriver(f"no NVIDIA driver ({error})")
    except AttributeError as error:
        return NoDriver(f"{library} is not a driver this runtime can use ({error})")
    try:
        driver.call("cuInit", 0)
    except DriverError as error:
        return NoDriver(str(error))
    return driver
