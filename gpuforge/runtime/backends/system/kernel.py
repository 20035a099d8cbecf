"""A kernel for the CPU: a function of a library with a C interface, called like kernels on a GPU."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from ...arguments import is_scalar, reader
from ...errors import DriverError
from ...hostarray import host_address
from ...index import Refused
from ...reason import Reason

# numpy's scalars by kind and size -> C's types; ctypes passes no complex number by value before Python 3.14
_SCALARS = {
    "b1": ctypes.c_bool, "i1": ctypes.c_int8, "i2": ctypes.c_int16, "i4": ctypes.c_int32, "i8": ctypes.c_int64,
    "u1": ctypes.c_uint8, "u2": ctypes.c_uint16, "u4": ctypes.c_uint32, "u8": ctypes.c_uint64,
    "f4": ctypes.c_float, "f8": ctypes.c_double,
}  # fmt: skip
_scalar_types: dict[type, Any] = {}  # those of numpy's types that were used


class HostMemory:
    """A copy of an array in the CPU's memory, so that code for a GPU runs here unchanged; see `Memory`."""

    __slots__ = ("_bytes", "address", "size")

    def __init__(self, size: int) -> None:
        self._bytes = (ctypes.c_char * max(size, 1))()
        self.address = ctypes.addressof(self._bytes)
        self.size = size

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy a contiguous buffer of exactly `size` bytes; raises ValueError."""
        self._view()[:] = self._checked(source)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Copy into a writable buffer of `size` bytes; raises ValueError for another size."""
        self._checked(target)[:] = self._view()

    def free(self) -> None:
        """Give the memory back; more than once is harmless."""
        self._bytes, self.address = (ctypes.c_char * 1)(), 0

    def __enter__(self) -> HostMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def _view(self) -> memoryview:
        return memoryview(self._bytes).cast("B")[: self.size]

    def _checked(self, buffer: Any) -> memoryview:
        view = memoryview(buffer)
        if view.nbytes != self.size:
            raise ValueError(f"the buffer holds {view.nbytes} bytes and the memory {self.size}")
        return view.cast("B") if self.size else view


class HostKernel:
    """A function of a library for the CPU. Safe to use from several threads if the function is.

    It gets the arguments and does the whole work: grid, block, shared memory and stream are not passed.
    """

    __slots__ = ("_function", "name")
    backend = "cpu"
    device = "CPU"

    def __init__(self, name: str, function: Any) -> None:
        self.name = name
        self._function = function
        function.restype = None

    def memory(self, size: int) -> HostMemory:
        """Allocate `size` bytes."""
        return HostMemory(size)

    def upload(self, source: Any) -> HostMemory:
        """Return a copy of a contiguous buffer; read a kernel's results in it with `HostMemory.read`."""
        memory = HostMemory(memoryview(source).nbytes)
        memory.write(source)
        return memory

    def launch(self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Call the function; it has finished when this returns.

        Arguments are as for `Kernel.launch`, with memory of the CPU: a `HostMemory`, or an array of NumPy or any
        contiguous buffer, whose address is passed. Raises TypeError, and ValueError for an array with gaps.
        """
        kept: list[Any] = []
        self._function(*[_value(number, value, kept) for number, value in enumerate(arguments)])

    def bind(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> Callable[[], None]:
        """Return a launch with these arguments that is repeated by calling it."""
        kept: list[Any] = [arguments]
        values = [_value(number, value, kept) for number, value in enumerate(arguments)]

        def again() -> None:
            assert kept  # noqa: S101  what the values point to lives as long as this
            self._function(*values)

        return again


def load(file: str, name: str) -> HostKernel:
    """Open a library with local symbols, and return a function of it.

    Raises Refused for a file that cannot be opened, DriverError for a function that it does not have.
    """
    try:
        library = ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise Refused(Reason("not-opened", {"problem": str(error)})) from error
    try:
        return HostKernel(name, library[name])
    except AttributeError:
        text = f'{file} has no function {name!r}: declare it extern "C"'
        raise DriverError("dlsym", 0, "NOT_FOUND", text) from None


def _scalar_type(number: int, value: Any) -> Any:
    """Return C's type of a number of NumPy, None for another value; raises TypeError for a number that ctypes lacks."""
    if not is_scalar(value):
        return None
    scalar = _SCALARS.get(f"{value.dtype.kind}{value.dtype.itemsize}")
    if scalar is None:  # it has an address, as an array has
        raise TypeError(
            f"argument {number}: {type(value).__name__} cannot be passed to a function for the CPU; "
            "write a ctypes.Structure for a complex number or a struct, and convert other numbers"
        )
    _scalar_types[type(value)] = scalar
    return scalar


def _value(number: int, value: Any, kept: list[Any]) -> Any:
    """Return an argument in ctypes' form; objects that must outlive the call are added to `kept`."""
    if isinstance(value, HostMemory):
        return ctypes.c_void_p(value.address)
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union)):
        return value
    scalar = _scalar_types.get(type(value)) or _scalar_type(number, value)
    if scalar is not None:
        return scalar(value.item())
    address = host_address(value, kept)
    if address is not None:
        return ctypes.c_void_p(address)
    reader(number, value)  # its error explains why a number has no type
    raise TypeError(f"argument {number}: {type(value).__name__} cannot be passed to a function for the CPU")
