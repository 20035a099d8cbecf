"""Has the driver compile PTX for a device, once on this machine; later processes use the kernel cache.

The driver's linker returns the machine code, which loading PTX does not:
https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html (cuLink*)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from ctypes import byref, c_size_t, c_void_p

from ...arch import Arch
from ...cache import CacheKey, KernelCache
from ...driver import driver_release, log_options
from ...process import DriverError
from ...values import Module
from .kernel import Context, Function

_NOT_FOUND = 500  # CUDA_ERROR_NOT_FOUND: the module has no kernel of that name
_PTX, _FATBIN = 1, 2  # CUjitInputType
_PTX_TEXT = re.compile(
    rb"(?:[ \t]*(?://[^\n]*)?\n)*\.version\b"
)  # comments, empty lines, the first directive


def function(
    name: str, module: Module, context: Context, cache: KernelCache, *, use: bool = True
) -> Function | None:
    """Return a kernel of a module whose PTX is compiled for the device of `context`, from the cache if it is there.

    None if that is not possible: the driver is too old, its release is unknown, or its machine code does not load; the
    module is then loaded as it is. With `use` False nothing is looked up or kept. Raises DriverError for a kernel that
    is not there, Refused for a damaged module.
    """
    driver, release = context.driver, driver_release()
    if not (driver.c.cuLinkCreate_v2 and release and module.sha256):
        return None
    arch = Arch(*driver.devices[context.ordinal].capability).sm
    key = CacheKey(module.sha256, (), (), "driver", arch, driver=release, label=f"{module.name} (PTX)")
    try:
        return kept_function(name, key, context, cache, lambda: _compiled(context, module), use=use)
    except DriverError as error:
        if error.code == _NOT_FOUND:
            raise
        return None


def kept_function(
    name: str, key: CacheKey, context: Context, cache: KernelCache, compile_it: Callable[[], bytes], *, use: bool
) -> Function:  # fmt: skip
    """Return a kernel of code that is compiled at its first use; what the driver does not load is compiled once more.

    Raises DriverError, and what `compile_it` raises.
    """
    for attempt in range(2):
        try:
            return context.function(name, key.digest, lambda: cache.obtain(key, compile_it, cache=use))
        except DriverError as error:
            if error.code == _NOT_FOUND:
                raise
            cache.discard(key)
            if attempt:
                raise
    raise AssertionError  # the loop has returned or raised


def _compiled(context: Context, module: Module) -> bytes:
    """Return machine code of the best image in a fatbin; raises DriverError with the compiler's log, Refused."""
    driver, data = context.driver, module.read()
    kind = _PTX if _PTX_TEXT.match(data) else _FATBIN  # text comes from compilers other than nvcc
    data += b"\0" if kind == _PTX else b""  # the driver requires a NUL at the end of a text
    log, options, values = log_options()
    state, code, size = c_void_p(), c_void_p(), c_size_t()
    with context.current():
        driver.call("cuLinkCreate_v2", 2, options, values, byref(state))
        try:
            driver.call("cuLinkAddData_v2", state, kind, data, len(data), b"kernels", 0, None, None, log=log)
            driver.call("cuLinkComplete", state, byref(code), byref(size), log=log)
            return ctypes.string_at(code.value or 0, size.value)  # the linker owns it until cuLinkDestroy
        finally:
            driver.c.cuLinkDestroy(state)
