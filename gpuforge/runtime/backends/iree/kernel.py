"""A function of an IREE module on a device, with the interface of kernels on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dimensions import launch_size
from ...given import given_value
from ...hostarray import HostArray, host_array
from ...index import Refused
from ...reason import Reason
from ...refusal import refusal
from ...stream import stream_handle
from ...upload import Uploads
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


class _Tensor(NamedTuple):
    """An argument in device memory; `array` is where it is copied back to, None if it is not."""

    memory: IreeMemory
    sizes: tuple[int, ...]
    array: HostArray | None = None
    own: bool = False  # made for this launch


class IreeKernel(Uploads[IreeMemory]):
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

    def launch(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None,
        cooperative: bool = False, cluster: Any = None,
    ) -> None:  # fmt: skip
        """Call the function; it has finished when this returns.

        Arguments are as for `Kernel.launch`, with IREE's memory: an `IreeMemory`, whose size must match the tensor's,
        or an array of NumPy, which is copied to the device and, if the function writes into it, back. Raises TypeError,
        ValueError, DriverError.
        """
        import iree.runtime as iree

        launch_size(grid, block, shared, cluster)
        stream_handle(stream)
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
                    tensor.memory.read(tensor.array.value)
        finally:
            for tensor in tensors:
                if tensor.own:
                    tensor.memory.free()

    def bind(self, grid: Any, block: Any, *arguments: Any, **options: Any) -> Callable[[], None]:
        """Return a launch with these arguments and options that is repeated by calling it."""
        return lambda: self.launch(grid, block, *arguments, **options)

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
        try:
            array = host_array(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"argument {number}: {error}") from error.__cause__
        if array is None:
            raise TypeError(f"argument {number}: {refusal(value)}")
        if array.dtype[1:] not in _DTYPES[parameter.element]:
            raise TypeError(f"argument {number}: {array.name} cannot be passed as {parameter}")
        if not parameter.takes(array.shape):
            shape = "x".join(map(str, array.shape))
            raise TypeError(f"argument {number}: an array of {shape} cannot be passed as {parameter}")
        if not array.in_c_order:
            raise TypeError(f"argument {number}: a contiguous array is expected")
        if parameter.output is not None and not array.writable:
            raise ValueError(f"argument {number}: the function writes into it, and it is read-only")
        written = array if parameter.output is not None else None
        return _Tensor(self.upload(value), array.shape, written, own=True)


def _number(number: int, parameter: Parameter, value: Any) -> float | int:
    """Return a number in the form of IREE's virtual machine, where integers have a sign."""
    try:
        described = given_value(value)
    except TypeError as error:
        raise TypeError(f"argument {number}: {error}") from None
    if described is None:
        raise TypeError(f"argument {number}: {refusal(value)}")
    kind = described.dtype[1:]
    found = value.value if isinstance(value, ctypes._SimpleCData) else getattr(value, "item", lambda: None)()
    if kind not in _DTYPES[parameter.element] or not isinstance(found, (int, float)):
        raise TypeError(f"argument {number}: {described.type} cannot be passed as {parameter}")
    if isinstance(found, float):
        return found
    bits = 8 * SIZES[parameter.element]
    return int(found) - (1 << bits) if kind[0] == "u" and found >= 1 << (bits - 1) else int(found)


def _refuse_overlap(written: Sequence[HostArray]) -> None:
    places = sorted((array.address, array.size) for array in written)
    for (start, size), (following, _) in zip(places, places[1:]):  # noqa: RUF007  Python 3.9
        if start + size > following:
            raise ValueError("two arrays that the function writes into overlap: pass a copy of one")
