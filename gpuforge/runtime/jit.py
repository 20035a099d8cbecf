"""Has the driver compile PTX for a device, once on this machine; later processes use the kernel cache.

The driver's linker returns the machine code, which loading PTX does not:
https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html (cuLink*)
"""

from __future__ import annotations

import ctypes
import re
from ctypes import byref, c_int, c_size_t, c_void_p
from dataclasses import dataclass

from .arch import Arch
from .backends.cuda.context import Context, Function
from .cache import CacheKey, KernelCache
from .driver import Driver
from .index import Module
from .machine import driver_release
from .process import DriverError

NOT_FOUND = 500  # CUDA_ERROR_NOT_FOUND: the module has no kernel of that name
_PTX, _FATBIN = 1, 2  # CUjitInputType
_PTX_TEXT = re.compile(
    rb"[ \t]*(?://[^\n]*)?\n|\.version\b"
)  # comments, empty lines, then the first directive
_LOG_BUFFER, _LOG_BUFFER_SIZE = 5, 6  # CUjit_option
_LOG_BYTES = 8192


def function(
    name: str, module: Module, context: Context, cache: KernelCache, *, use: bool = True
) -> Function | None:
    """Return a kernel of a module whose PTX is compiled for the device of `context`, from the cache if it is there.

    None if that is not possible: the driver is too old, its release is unknown, or its machine code does not load; the
    module is then loaded as it is. With `use` False nothing is looked up or kept. Raises DriverError for a kernel that
    is not there, Refused for a damaged module.
    """
    driver = context.driver
    release = driver_release()
    if not (driver.c.cuLinkCreate_v2 and release and module.sha256):
        return None
    arch = Arch(*driver.devices[context.ordinal].capability)
    key = CacheKey(module.sha256, (), (), "driver", arch.sm, driver=release, label=f"{module.name} (PTX)")
    for _ in range(2):  # code that the driver refuses to load is dropped, and compiled once more
        try:
            return context.function(
                name, key.digest, lambda: cache.obtain(key, _Compile(driver, context, module), cache=use)
            )
        except DriverError as error:
            if error.code == NOT_FOUND:
                raise
            cache.discard(key)
    return None


@dataclass(frozen=True)
class _Compile:
    """The compile step: from the best image of a fatbin to machine code for the device of a context."""

    driver: Driver
    context: Context
    module: Module

    def __call__(self) -> bytes:
        """Return a cubin; raises DriverError with the compiler's log, Refused for a damaged module."""
        data = self.module.read()
        kind = _PTX if _is_ptx(data) else _FATBIN
        data += b"\0" if kind == _PTX else b""  # the driver requires a NUL at the end of a text
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_LOG_BUFFER, _LOG_BUFFER_SIZE)
        values = (c_void_p * 2)(ctypes.addressof(log), len(log))
        state, code, size = c_void_p(), c_void_p(), c_size_t()
        with self.context.current():
            self.driver.call("cuLinkCreate_v2", 2, options, values, byref(state))
            try:
                for step, arguments in (
                    ("cuLinkAddData_v2", (state, kind, data, len(data), b"kernels", 0, None, None)),
                    ("cuLinkComplete", (state, byref(code), byref(size))),
                ):
                    failed = getattr(self.driver.c, step)(*arguments)
                    if failed:
                        raise self.driver.error(step, failed, log.value.decode(errors="replace").strip())
                return ctypes.string_at(code.value or 0, size.value)  # the linker owns it until cuLinkDestroy
            finally:
                self.driver.c.cuLinkDestroy(state)


def _is_ptx(data: bytes) -> bool:
    """Return whether a module is PTX as text, from compilers other than nvcc; comments may come first."""
    position = 0
    while found := _PTX_TEXT.match(data, position):
        if found[0].startswith(b"."):
            return True
        position = found.end()
    return False
