"""A device's primary context, the one that CUDA's runtime API shares: its modules, memory and launches."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .driver import Driver

Dim = tuple[int, int, int]


class Context:
    """A primary context, retained for the life of the process, with the modules loaded into it.

    Every method makes it current in the calling thread for its own duration and puts back what was current.
    """

    def __init__(self, driver: Driver, ordinal: int) -> None:
        handle = ctypes.c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), driver.device(ordinal))
        self._driver = driver
        self._handle = handle
        self._lock = threading.Lock()
        self._modules: dict[str, int] = {}

    def function(self, name: str, digest: str, read: Callable[[], bytes]) -> int:
        """Return the handle of kernel `name` in the module with this content digest.

        `read` gives the module's bytes and is asked once; a module that failed to load is tried again next
        time. Raises DriverError.
        """
        handle = ctypes.c_void_p()
        with self.current(), self._lock:
            if digest not in self._modules:
                self._modules[digest] = self._driver.load_module(read())
            module = self._modules[digest]
            self._driver.call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
        return handle.value or 0

    def launch(self, function: int, grid: Dim, block: Dim, arguments: tuple[Any, ...], shared: int) -> None:
        """Queue a kernel on the default stream; raises DriverError, and TypeError for a plain number."""
        values = [_argument(value) for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        with self.current():
            self._driver.call("cuLaunchKernel", function, *grid, *block, shared, None, pointers, None)

    def allocate(self, size: int) -> Memory:
        """Return `size` bytes of device memory (at least one); raises DriverError when there is no room."""
        address = ctypes.c_uint64()
        with self.current():
            self._driver.call("cuMemAlloc_v2", ctypes.byref(address), max(size, 1))
        return Memory(self, self._driver, address.value, size)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this context current in the calling thread, then restore the one before."""
        self._driver.call("cuCtxPushCurrent_v2", self._handle)
        try:
            yield
        finally:
            self._driver.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class Memory:
    """Device memory of `size` bytes; use it in a `with` statement, which frees it."""

    def __init__(self, context: Context, driver: Driver, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self._context = context
        self._driver = driver

    def write(self, source: Any) -> None:
        """Copy a contiguous buffer of exactly `size` bytes to the device; raises ValueError, DriverError."""
        view = self._bytes_of(source)
        if not self.size:
            return
        plain = ctypes.c_char * self.size
        host = plain.from_buffer_copy(view) if view.readonly else plain.from_buffer(view)
        with self._context.current():
            self._driver.call("cuMemcpyHtoD_v2", self.address, host, self.size)

    def read(self, target: Any) -> None:
        """Wait for the kernels queued so far and copy the memory into a writable buffer of `size` bytes.

        Raises ValueError for another size, DriverError: also for a fault of a kernel that ran before.
        """
        view = self._bytes_of(target)
        if not self.size:
            return
        host = (ctypes.c_char * self.size).from_buffer(view)
        with self._context.current():
            self._driver.call("cuMemcpyDtoH_v2", host, self.address, self.size)

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        address, self.address = self.address, 0
        if address:
            with self._context.current():
                self._driver.call("cuMemFree_v2", address)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def _bytes_of(self, buffer: Any) -> memoryview:
        view = memoryview(buffer)
        if view.nbytes != self.size:
            raise ValueError(f"the buffer holds {view.nbytes} bytes and the device memory {self.size}")
        return view.cast("B") if self.size else view


def _argument(value: Any) -> Any:
    if isinstance(value, Memory):
        return ctypes.c_uint64(value.address)
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure)):
        return value
    raise TypeError(f"a kernel's argument is a Memory or a ctypes value, not {type(value).__name__}")


_lock = threading.Lock()
_contexts: dict[tuple[int, int], Context] = {}


def primary_context(driver: Driver, ordinal: int) -> Context:
    """Return the primary context of a device, the same object each time; raises DriverError."""
    with _lock:
        key = id(driver), ordinal
        if key not in _contexts:
            _contexts[key] = Context(driver, ordinal)
        return _contexts[key]
