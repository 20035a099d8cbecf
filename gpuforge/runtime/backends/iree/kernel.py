"""A function of an IREE module on a device, with the interface of kernels on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...arguments import is_array, is_scalar, reader
from ...index import Refused
from ...reason import Reason
from ...upload import filled
from .memory import IreeDevice, IreeMemory
from .signature import DECLARATION, SIZES, Parameter, read

# IREE's types -> NumPy's types of the same bits; without a sign in IREE, both of NumPy's
_DTYPES = {
    "i1": ("b1",), "i8": ("i1", "u1"), "i16": ("i2", "u2"), "i32": ("i4", "u4"), "i64": ("i8", "u8"),
    "f16": ("f2",), "bf16": (), "f32": ("f4",), "f64": ("f8",),
}  # fmt: skip
_ELEMENTS = {
    "i1": "BOOL_8", "i8": "INT_8", "i16": "INT_16", "i32": "INT_32", "i64": "INT_64", "f16": "FLOAT_16",
    "bf16": "BFLOAT_16", "f32": "FLOAT_32", "f64": "FLOAT_64",
}  # fmt: skip
_CODES = {
    "?": "b1",
    "b": "i1",
    "B": "u1",
    "h": "i2",
    "H": "u2",
    "i": "i4",
    "I": "u4",
    "l": "i8",
    "L": "u8",
    "q": "i8",
    "Q": "u8",
    "f": "f4",
    "d": "f8",
}  # fmt: skip  of ctypes


class _Tensor(NamedTuple):
    """An argument in device memory; `array` is where it is copied back to, None if it is not."""

    memory: IreeMemory
    sizes: tuple[int, ...]
    array: Any = None
    own: bool = False  # made for this launch


class IreeKernel:
    """A function on a device of IREE. Safe to use from several threads.

    It does the whole work: grid, block, shared memory and stream are not passed. It has finished when `launch` returns.
    """

    backend = "iree"

    def __init__(self, name: str, iree_device: IreeDevice, module: Any, context: Any) -> None:
        function = module.lookup_function(name)
        if function is None:
            known = ", ".join(n for n in module.function_names if not n.startswith("__")) or "none"
            facts = {"kernel": name, "problem": f"the module has no such function; it has: {known}"}
            raise Refused(Reason("not-a-kernel", facts))
        self.name = name
        self.driver = iree_device.driver
        self.device = iree_device.name
        self._iree_device = iree_device
        self._context = context
        self._function = function
        self._parameters = read(name, str(function.reflection.get(DECLARATION, "")))

    def memory(self, size: int) -> IreeMemory:
        """Allocate `size` bytes on the function's device, freed by a `with` statement; raises DriverError."""
        return IreeMemory(self._iree_device, size)

    def upload(self, source: Any) -> IreeMemory:
        """Return device memory with a copy of a contiguous buffer; raises TypeError, ValueError, DriverError."""
        return filled(self.memory(memoryview(source).nbytes), source)

    def launch(self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Call the function; it has finished when this returns.

        Arguments are as for `Kernel.launch`, with IREE's memory: an `IreeMemory`, whose size must match the tensor's,
        or an array of NumPy, which is copied to the device and, if the function writes into it, back. Raises TypeError,
        ValueError, DriverError.
        """
        import iree.runtime as iree

        if len(arguments) != len(self._parameters):
            raise TypeError(
                f"the kernel has {len(self._parameters)} parameters, and {len(arguments)} arguments are given"
            )
        values = iree.VmVariantList(len(arguments))
        tensors: list[_Tensor] = []
        try:
            for number, (parameter, value) in enumerate(zip(self._parameters, arguments)):
                self._push(values, number, parameter, value, tensors)
            _refuse_overlap([tensor.array for tensor in tensors if tensor.array is not None])
            self._invoke(values)
            for tensor in tensors:
                if tensor.array is not None:
                    tensor.memory.read(tensor.array)
        finally:
            for tensor in tensors:
                if tensor.own:
                    tensor.memory.free()

    def bind(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> Callable[[], None]:
        """Return a launch with these arguments that is repeated by calling it."""
        return lambda: self.launch(grid, block, *arguments, shared=shared, stream=stream)

    def _invoke(self, values: Any) -> None:
        import iree.runtime as iree

        with self._iree_device.lock:
            try:
                self._context.invoke(self._function, values, iree.VmVariantList(1))
            except (RuntimeError, ValueError) as error:
                raise self._iree_device.failure(f"kernel {self.name}", error) from error

    def _push(
        self, values: Any, number: int, parameter: Parameter, value: Any, tensors: list[_Tensor]
    ) -> None:
        import iree.runtime as iree

        if parameter.shape is None:
            found = _number(number, parameter, value)
            (values.push_float if isinstance(found, float) else values.push_int)(found)
            return
        tensor = self._tensor(number, parameter, value)
        tensors.append(tensor)
        element = getattr(iree.HalElementType, _ELEMENTS[parameter.element])
        values.push_ref(iree.HalBufferView(tensor.memory.buffer, list(tensor.sizes), element))

    def _tensor(self, number: int, parameter: Parameter, value: Any) -> _Tensor:
        """Return an argument as a tensor in device memory: IREE checks neither its type nor its size."""
        if isinstance(value, IreeMemory):
            sizes = parameter.sizes_of(value.size)
            if sizes is None:
                raise TypeError(f"argument {number}: {value.size} bytes do not give the sizes of {parameter}")
            return _Tensor(value, sizes)
        if not is_array(value):
            reader(number, value)  # its error explains why a number has no type
            raise TypeError(f"argument {number}: {type(value).__name__} cannot be passed as {parameter}")
        if f"{value.dtype.kind}{value.dtype.itemsize}" not in _DTYPES[parameter.element]:
            raise TypeError(f"argument {number}: an array of {value.dtype} cannot be passed as {parameter}")
        if not parameter.takes(value.shape):
            shape = "x".join(map(str, value.shape))
            raise TypeError(f"argument {number}: an array of {shape} cannot be passed as {parameter}")
        if not value.flags.c_contiguous:
            raise TypeError(f"argument {number}: a contiguous array is expected")
        if parameter.output is not None and not value.flags.writeable:
            raise ValueError(f"argument {number}: the function writes into it, and it is read-only")
        written = value if parameter.output is not None else None
        return _Tensor(self.upload(value), value.shape, written, own=True)


def _number(number: int, parameter: Parameter, value: Any) -> float | int:
    """Return a number in the form of IREE's virtual machine, where integers have a sign."""
    if isinstance(value, ctypes._SimpleCData):
        kind, found = _CODES.get(getattr(value, "_type_", ""), ""), value.value
    elif is_scalar(value):
        kind, found = f"{value.dtype.kind}{value.dtype.itemsize}", value.item()
    else:
        reader(number, value)  # its error explains why a Python number has no type
        raise TypeError(f"argument {number}: {type(value).__name__} cannot be passed as {parameter}")
    if kind not in _DTYPES[parameter.element]:
        raise TypeError(f"argument {number}: {type(value).__name__} cannot be passed as {parameter}")
    if isinstance(found, float):
        return found
    bits = 8 * SIZES[parameter.element]
    return int(found) - (1 << bits) if kind[0] == "u" and found >= 1 << (bits - 1) else int(found)


def _refuse_overlap(written: Sequence[Any]) -> None:
    places = sorted((array.__array_interface__["data"][0], array.nbytes) for array in written)
    for (start, size), (following, _) in zip(places, places[1:]):  # noqa: RUF007  Python 3.9
        if start + size > following:
            raise ValueError("two arrays that the function writes into overlap: pass a copy of one")
