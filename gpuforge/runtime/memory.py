"""Device memory that the caller copies into and out of; there are no implicit copies."""

from __future__ import annotations

import ctypes
from ctypes import c_uint64
from typing import Any

from .context import Context
from .stream import stream_handle


class Memory:
    """Device memory of `size` bytes; use it in a `with` statement, which frees it.

    Other libraries can use it in place, as an array of bytes: it has a `__cuda_array_interface__`.
    """

    __slots__ = ("_context", "_driver", "address", "size")

    def __init__(self, context: Context, size: int) -> None:
        address = c_uint64()
        self._context = context
        self._driver = context.driver
        with context.current():
            self._driver.call("cuMemAlloc_v2", ctypes.byref(address), max(size, 1))
        self.address = address.value
        self.size = size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy a contiguous buffer of exactly `size` bytes to the device; raises ValueError, DriverError.

        The copy waits for the work queued on `stream`, and has finished when this returns.
        """
        view = self._bytes_of(source)
        if not self.size:
            return
        plain = ctypes.c_char * self.size
        host = plain.from_buffer_copy(view) if view.readonly else plain.from_buffer(view)
        self._copy("cuMemcpyHtoD", self.address, host, stream)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Wait for the kernels queued so far on `stream`, and copy into a writable buffer of `size` bytes.

        Raises ValueError for another size, DriverError, also for a fault of an earlier kernel.
        """
        view = self._bytes_of(target)
        if not self.size:
            return
        self._copy("cuMemcpyDtoH", (ctypes.c_char * self.size).from_buffer(view), self.address, stream)

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

    def _copy(self, function: str, target: Any, source: Any, stream: Any) -> None:
        handle = stream_handle(stream)
        with self._context.current():
            if not handle:
                self._driver.call(f"{function}_v2", target, source, self.size)
                return
            self._driver.call(f"{function}Async_v2", target, source, self.size, handle)
            self._driver.call("cuStreamSynchronize", handle)

    def _bytes_of(self, buffer: Any) -> memoryview:
        view = memoryview(buffer)
        if view.nbytes != self.size:
            raise ValueError(f"the buffer holds {view.nbytes} bytes and the device memory {self.size}")
        return view.cast("B") if self.size else view
