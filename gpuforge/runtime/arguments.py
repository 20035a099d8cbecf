"""Kernel arguments: packs values of each type into memory as the C types that the kernel declares."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .dlpack import address_of, tensor_of
from .frame import HEAD, Frame
from .memory import Memory
from .stream import LEGACY
from .strides import refuse_gaps

_REACHABLE = {2, 3, 13}  # kDLCUDA, kDLCUDAHost, kDLCUDAManaged
_STREAMS = 16


class Reader(NamedTuple):
    """How one type is passed: its `struct` code, its size in bytes, and a function for the value to pack.

    `value` is a function, or an attribute of the argument; it is neither if `struct` takes the argument itself. `waits`
    is set if the value is an array that other streams may be writing: `value(array, stream, wait)`.
    """

    code: str
    size: int
    value: Callable[..., Any] | None = None
    waits: bool = False
    attribute: str = ""

    def expression(self, argument: str, function: str) -> str:
        """Return Python code for the value, given the names of the argument and of `value`."""
        if self.value is None:
            return f"{argument}.{self.attribute}" if self.attribute else argument
        return f"{function}({argument}, stream, wait)" if self.waits else f"{function}({argument})"


def reader(position: int, value: Any) -> Reader:
    """Return how values of this one's type are passed; raises TypeError, with its position, if they cannot."""
    if isinstance(value, Memory):
        return Reader("P", 8, attribute="address")
    if isinstance(value, ctypes._SimpleCData):
        return _of_ctypes(value)
    if isinstance(value, (ctypes.Structure, ctypes.Union, ctypes.Array)):
        size = ctypes.sizeof(value)
        return Reader(f"0Q{size}s", size, bytes)
    if hasattr(value, "__cuda_array_interface__"):
        return Reader("P", 8, _array_address, waits=True)
    if is_scalar(value):
        return _of_numpy(position, value)
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in _REACHABLE:
        return Reader("P", 8, _dlpack_address, waits=True)
    raise TypeError(f"argument {position}: {_refusal(value)}")


def is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy."""
    kind = type(value)
    return kind.__module__ == "numpy" and hasattr(kind, "dtype") and hasattr(kind, "ctypes")


def is_scalar(value: Any) -> bool:
    """Return whether a value is one number or struct of NumPy."""
    kind = type(value)
    return kind.__module__ == "numpy" and hasattr(kind, "dtype") and not hasattr(kind, "ctypes")


def _refusal(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, (bool, int, float, complex)):
        return f"a Python {kind} has no C type: write ctypes.c_float({value}), numpy.float32({value}) or the like"
    try:
        if not hasattr(value, "__dlpack_device__"):  # torch's tensors are not buffers
            memoryview(value)
    except TypeError:
        return f"a kernel takes numbers of ctypes or NumPy and arrays in device memory, not {kind}"
    return (
        f"{kind} is host memory, which no kernel can read: copy it with kernel.upload(array), "
        "and the result back with Memory.read(array)"
    )


def _of_ctypes(value: Any) -> Reader:
    code = type(value)._type_
    if code in {"P", "z", "Z"}:
        return Reader("P", 8, _pointer)
    code = {"v": "h", "g": ""}.get(code, code)  # VARIANT_BOOL; GPUs have no long double
    if not code or code == "O" or ctypes.sizeof(value) != struct.calcsize(code):
        raise TypeError(f"{type(value).__name__} is not a type that a kernel can have")
    return Reader(code, struct.calcsize(code), attribute="value")


def _pointer(value: Any) -> int:
    return ctypes.cast(value, ctypes.c_void_p).value or 0


def _of_numpy(position: int, value: Any) -> Reader:
    kind, size = value.dtype.kind, value.dtype.itemsize
    code = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
            "f2": "e", "f4": "f", "f8": "d", "c8": "0f8s", "c16": "0d16s"}.get(f"{kind}{size}")  # fmt: skip
    if code is None:
        raise TypeError(
            f"argument {position}: {type(value).__name__} is not a type that a kernel can have; "
            "write a ctypes.Structure for a struct"
        )
    return Reader(code, size, type(value).tobytes if kind == "c" else None)


def _array_address(array: Any, stream: int, wait: Callable[[int, int], None]) -> int:
    """Return the address of an array, and have `stream` wait for the work of the array's own stream.

    Raises TypeError for host memory, ValueError for an array with gaps.
    https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html#synchronization
    """
    try:
        interface = array.__cuda_array_interface__
    except AttributeError:  # some of one type may be in host memory: torch's
        raise TypeError(_refusal(array)) from None
    if interface.get("strides") is not None:  # None: contiguous
        _check_strides(array, interface)
    theirs = interface.get("stream")
    if theirs is not None and theirs != (stream or LEGACY):
        wait(int(theirs), stream)
    return int(interface["data"][0])


def _dlpack_address(array: Any, stream: int, _: object) -> int:
    """Return the address of a DLPack array; its own library orders its work before `stream`.

    Raises TypeError for host memory, ValueError for an array with gaps.
    """
    capsule = array.__dlpack__(stream=stream or LEGACY)
    tensor = tensor_of(capsule)
    if tensor.device_type not in _REACHABLE:
        raise TypeError(_refusal(array))
    return address_of(array, tensor)


def _check_strides(array: Any, interface: Mapping[str, Any]) -> None:
    """Raise ValueError for an array with gaps, by its `__cuda_array_interface__`."""
    size = int(interface["typestr"][2:].partition("[")[0])  # "<f4", "<M8[ns]"
    refuse_gaps(array, interface["shape"], interface["strides"], size)


class Layout:
    """How the arguments of one launch signature are read and packed, with the unused frames.

    `frames` are by stream, for as many streams as one program is likely to have; the others share theirs.
    """

    __slots__ = ("_offsets", "_shared", "_size", "frames", "pack", "values")

    def __init__(self, arguments: Sequence[Any]) -> None:
        found = [reader(number, value) for number, value in enumerate(arguments)]
        code, self._offsets = HEAD, []
        for one in found:
            alignment = one.code if one.code[0] == "0" else f"0{one.code}"
            padded = struct.calcsize(code + alignment[: 2 if alignment[0] == "0" else 1])
            self._offsets.append(padded)
            code += one.code
        packer = struct.Struct(code)
        self._size = packer.size
        self.pack = packer.pack_into
        self.values = _values(found)
        self.frames: dict[int, list[Frame]] = {}
        self._shared: list[Frame] = []

    def check(self, sizes: Sequence[int] | None, arguments: Sequence[Any]) -> None:
        """Compare with the sizes of the kernel's parameters, if the driver knows them; raises TypeError."""
        if sizes is None:
            return
        if len(sizes) != len(arguments):
            raise TypeError(
                f"the kernel has {len(sizes)} parameters, and {len(arguments)} arguments are given"
            )
        for number, (size, value) in enumerate(zip(sizes, arguments)):
            found = reader(number, value).size
            if found != size:
                raise TypeError(
                    f"argument {number}: {type(value).__name__} has {found} bytes, and the kernel's parameter {size}"
                )

    def frame(self, queue: int, function: int) -> Frame:
        """Return an unused frame for a launch of a CUfunction on a stream; put it back into its `pool`."""
        pool = self.frames.get(queue)
        if pool is None:
            pool = self.frames.setdefault(queue, []) if len(self.frames) < _STREAMS else self._shared
        try:
            return pool.pop()
        except IndexError:
            frame = self.new_frame(function)
        frame.pool = pool
        if pool is self._shared:
            frame.left = 0
        return frame

    def new_frame(self, function: int) -> Frame:
        """Return a frame of the caller's own."""
        return Frame(self._size, self._offsets, function)


def _values(readers: Sequence[Reader]) -> Callable[..., tuple[Any, ...]]:
    """Return a function from a stream, a function that waits for another stream, and arguments to the packed values.

    It is generated as code, like the methods of `dataclasses`: a loop over the readers at each launch takes longer than
    the driver's part of it.
    """
    names = [f"a{number}" for number in range(len(readers))]
    functions = {f"f{number}": one.value for number, one in enumerate(readers)}
    parts = [one.expression(name, f"f{number}") for number, (name, one) in enumerate(zip(names, readers))]
    code = f"lambda stream, wait, {', '.join(names)}: ({''.join(f'{part}, ' for part in parts)})"
    made: Callable[..., tuple[Any, ...]] = eval(code, functions)  # noqa: S307  of the names above alone
    return made
