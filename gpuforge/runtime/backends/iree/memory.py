"""A device of IREE, and memory on it."""

from __future__ import annotations

import threading
from typing import Any

from ...dimensions import size_of
from ...errors import DriverError
from ...hostarray import source_of, target_of
from ...refusal import FREED
from .devices import status_of


class IreeDevice:
    """One device of a driver of IREE, and the modules that were loaded for it."""

    def __init__(self, driver: str, device: Any, name: str) -> None:
        import iree.runtime as iree

        self.driver = driver
        self.name = name
        self.device = device
        self.instance = iree.VmInstance()
        self.lock = threading.Lock()  # a context runs one function at a time
        self._hal = iree.create_hal_module(self.instance, device)
        self._modules: dict[str, tuple[Any, Any]] = {}

    def module(self, sha256: str, data: bytes) -> tuple[Any, Any]:
        """Return a module and its context, made once for this device; raises DriverError."""
        import iree.runtime as iree

        with self.lock:
            if sha256 not in self._modules:
                try:
                    module = iree.VmModule.copy_buffer(self.instance, data)
                    context = iree.VmContext(self.instance, modules=[self._hal, module])
                except (RuntimeError, ValueError) as error:
                    raise self.failure("loading the module", error) from error
                self._modules[sha256] = module, context
            return self._modules[sha256]

    def copy(self, source: Any, target: Any) -> None:
        """Copy all of a buffer into another of the same size, and wait for it; raises DriverError."""
        import iree.runtime as iree

        try:
            semaphore = self.device.create_semaphore(0)
            done = iree.HalFence.create_at(semaphore, 1)
            self.device.queue_copy(
                source, target, wait_semaphores=iree.HalFence.create_at(semaphore, 0), signal_semaphores=done
            )
            done.wait()
        except (RuntimeError, ValueError) as error:
            raise self.failure("copying", error) from error

    def failure(self, call: str, error: Exception) -> DriverError:
        """Return an error of IREE as a driver's error."""
        status, text = status_of(error)
        return DriverError(f"{call} with IREE's {self.driver}", 0, status, text)


class IreeMemory:
    """Memory of a device of IREE; see `Memory`."""

    __slots__ = ("_buffer", "_iree_device", "size")

    def __init__(self, iree_device: IreeDevice, size: int) -> None:
        import iree.runtime as iree

        self.size = size_of("the memory's size", size)
        self._iree_device = iree_device
        try:
            self._buffer: Any = iree_device.device.allocator.allocate_buffer(
                iree.MemoryType.DEVICE_LOCAL, iree.BufferUsage.DEFAULT, max(self.size, 1)
            )
        except (RuntimeError, ValueError) as error:
            raise iree_device.failure("allocating", error) from error

    @property
    def buffer(self) -> Any:
        """Its buffer of IREE; raises ValueError after `free`."""
        if self._buffer is None:
            raise ValueError(FREED)
        return self._buffer

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array of the host, of `size` bytes in C's order; raises TypeError, ValueError, DriverError."""
        buffer, array = self.buffer, source_of(source, self.size)
        if not self.size:
            return
        allocator = self._iree_device.device.allocator
        try:
            staging = allocator.allocate_host_staging_buffer_copy(self._iree_device.device, array.bytes())
        except (RuntimeError, ValueError) as error:
            raise self._iree_device.failure("copying", error) from error
        self._iree_device.copy(staging, buffer)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Copy into an array of `size` bytes in C's order; raises TypeError, ValueError, DriverError."""
        import iree.runtime as iree

        buffer, array = self.buffer, target_of(target, self.size)
        if not self.size:
            return
        kind = iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE
        usage = iree.BufferUsage.TRANSFER_TARGET | iree.BufferUsage.MAPPING_SCOPED
        try:
            staging = self._iree_device.device.allocator.allocate_buffer(kind, usage, self.size)
        except (RuntimeError, ValueError) as error:
            raise self._iree_device.failure("copying", error) from error
        self._iree_device.copy(buffer, staging)
        array.bytes()[:] = memoryview(
            staging.map().asarray((self.size,), iree.HalElementType.map_to_dtype(iree.HalElementType.UINT_8))
        )

    def free(self) -> None:
        """Give the memory back to the device; more than once is harmless."""
        self._buffer = None

    def __enter__(self) -> IreeMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
