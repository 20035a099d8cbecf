"""Kernel arguments: arrays by the libraries that make them, and numbers as the C types that the kernel declares."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Sequence
from ctypes import byref, c_char, c_uint64, c_void_p
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Optional

from ...driver import Driver
from ...given import (
    DLPACK_KINDS,
    LEGACY,
    PER_THREAD,
    DLTensor,
    address_of,
    given_array,
    given_value,
    is_scalar,
    refusal,
    refuse_gaps,
    tensor_of,
    type_name,
    whole,
)
from ...signature import Entry, Given, Parameter, check, limits, misfit, outside, spelled
from .context import Memory, Place, given_context

_CUDA = 2  # DLDeviceType: kDLCUDA
_REACHABLE = {_CUDA, 3, 13}  # kDLCUDAHost, kDLCUDAManaged
_CONTEXT, _ORDINAL = 1, 9  # CUpointer_attribute
_MEMORY = "memory"  # the library of `Memory`, which keeps its own order
# CUlaunchConfig: grid, block, dynamic shared memory, stream; then the attributes, of which there are none.
_HEAD = "@7IP16x"
# CUDA_KERNEL_NODE_PARAMS_v2: function, grid, block, dynamic shared memory, pointers to the arguments; three are NULL
NODE = "@P7IP24x"
_ATTRIBUTES = 40  # the offset of the attributes in it
_UNKNOWN = Parameter("", 0)
# NumPy's types -> `struct`'s codes; "0" is for the alignment of what follows
_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d", "c8": "0f8s", "c16": "0d16s",
}  # fmt: skip
_TORCH = {
    "bool": "|b1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "|u1", "uint16": "<u2",
    "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
    "complex128": "<c16", "bfloat16": "<V2",
}  # fmt: skip

# raises TypeError for elements of a type, as NumPy and ml_dtypes write it: "<f4", bfloat16 "<V2"; "" is not known
Accept = Callable[[str], None]
Located = tuple[Optional[Place], int]  # where an array is, None if nothing says it, and its address


class ElsewhereError(Exception):
    """An array is not where it is expected, or is not ready there: the launch must be looked at as a whole."""


class ArrayReader(NamedTuple):
    """How arrays of one type are passed, for one argument.

    `locate` returns the place and the address of an array; `address`, for the usual launch, the address alone, and
    raises ElsewhereError for an array in another place.
    """

    locate: Callable[[Any], Located]
    library: str = ""
    address: Callable[[Any, Place], int] | None = None
    # (place, array): the stream that its library uses at this moment
    stream: Callable[[Place, Any], int] | None = None
    # (place): the same, if the array does not matter
    current: Callable[[Place], int] | None = None
    # (array, stream): its address once the work of its library precedes that of the stream, in which it must then end
    # before the launch returns
    late: Callable[[Any, int], int] | None = None


def _array_reader(value: Any, accept: Accept, driver: Driver) -> ArrayReader | None:
    if isinstance(value, Memory):
        return ArrayReader(Memory.located, _MEMORY, _of_memory)
    home = _home(type(value))
    if home == "torch":
        return _torch(accept)
    if home == "cupy":
        return _cupy(accept, value)
    if home == "cuda":
        return ArrayReader(lambda buffer: (_ordinal(buffer), int(buffer.handle)))
    if home != "jax" and hasattr(value, "__cuda_array_interface__"):
        return _interface(accept, driver)
    if hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in _REACHABLE:
        return _dlpack(accept)
    return None


def _is_on_host(value: Any) -> bool:
    try:
        if not hasattr(value, "__dlpack_device__"):  # torch's tensors are not buffers
            memoryview(value)
    except TypeError:
        return False
    return True


def _host_memory(value: Any) -> TypeError:
    return TypeError(
        f"{type(value).__name__} is host memory, which no kernel can read: copy it with kernel.upload(array), "
        "and the result back with Memory.read(array)"
    )


def _home(kind: type) -> str:
    for base in kind.__mro__:
        package, _, _ = base.__module__.partition(".")
        if (package, base.__name__) in {("torch", "Tensor"), ("cupy", "ndarray"), ("cuda", "Buffer")}:
            return package
        if package in {"jax", "jaxlib"}:
            return "jax"
    return ""


def _of_memory(memory: Memory, place: Place) -> int:
    address = memory.address
    if not address or memory.place is not place or memory.pending:
        raise ElsewhereError
    memory.on_default = True
    return address


def _ordinal(buffer: Any) -> int | None:
    return buffer.device_id if buffer.device_id >= 0 else None


def _torch(accept: Accept) -> ArrayReader:
    torch = sys.modules["torch"]
    accepted: set[Any] = set()
    usual: list[Any] = [None]  # the dtype of the last array; to look it up in the set takes longer
    where, address, is_dense = torch.Tensor.get_device, torch.Tensor.data_ptr, torch.Tensor.is_contiguous

    def locate(tensor: Any) -> Located:
        place = where(tensor)
        if place < 0:
            raise _host_memory(tensor)
        if tensor.dtype not in accepted:
            accept(_TORCH.get(str(tensor.dtype)[6:], ""))
            if not tensor.dtype.is_complex:  # those may be conjugated only when they are read
                accepted.add(tensor.dtype)
            elif tensor.is_conj():
                raise ValueError("a conjugated view: its memory has other values; pass tensor.resolve_conj()")
        usual[0] = tensor.dtype if tensor.dtype in accepted else None
        if tensor.is_neg():
            raise ValueError("a negated view: its memory has other values; pass tensor.resolve_neg()")
        if not is_dense(tensor):
            refuse_gaps(tensor, tensor.shape, tensor.stride(), 1)
        return place, address(tensor)

    def address_in(tensor: Any, place: Place) -> int:
        if where(tensor) != place or tensor.dtype is not usual[0] or not is_dense(tensor):
            raise ElsewhereError
        found: int = address(tensor)
        return found

    def of_device(place: Place) -> int:
        found: int = torch.cuda.current_stream(place).cuda_stream
        return found

    # Triton's way, at a tenth of the time
    current = getattr(torch._C, "_cuda_getCurrentRawStream", of_device)
    return ArrayReader(locate, "torch", address_in, lambda place, _: current(place), current)


def _cupy(accept: Accept, example: Any) -> ArrayReader:
    current = sys.modules["cupy"].cuda.get_current_stream
    accepted: set[Any] = set()
    usual: list[Any] = [None]  # the dtype of the last array; to look it up in the set takes longer
    # `flags` takes six times as long
    is_dense = attrgetter("_c_contiguous" if hasattr(example, "_c_contiguous") else "flags.c_contiguous")

    def locate(array: Any) -> Located:
        if array.dtype not in accepted:
            accept(array.dtype.str)
            accepted.add(array.dtype)
        usual[0] = array.dtype
        if not is_dense(array):
            refuse_gaps(array, array.shape, array.strides, array.itemsize)
        data = array.data
        return data.device_id, data.ptr

    def address_in(array: Any, place: Place) -> int:
        data = array.data
        if data.device_id != place or array.dtype is not usual[0] or not is_dense(array):
            raise ElsewhereError
        found: int = data.ptr
        return found

    def of_device(place: Place) -> int:
        found: int = current(place).ptr
        return found

    return ArrayReader(locate, "cupy", address_in, lambda place, _: of_device(place), of_device)


def _interface(accept: Accept, driver: Driver) -> ArrayReader:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html; the driver knows where the array is."""
    accepted: set[str] = set()

    def locate(array: Any) -> Located:
        try:
            interface = array.__cuda_array_interface__
        except AttributeError:  # some of one type may be in host memory
            raise _host_memory(array) from None
        if interface["typestr"] not in accepted:
            accept(interface["typestr"])
            accepted.add(interface["typestr"])
        if interface.get("strides") is not None:  # None: contiguous
            size = int(interface["typestr"][2:].partition("[")[0])  # "<f4", "<M8[ns]"
            refuse_gaps(array, interface["shape"], interface["strides"], size)
        address = int(interface["data"][0])
        return place_of(driver, address), address

    def stream(_: Place, array: Any) -> int:
        found = array.__cuda_array_interface__.get("stream")
        if found is not None:
            return int(found)
        # the default stream, which Numba can make each thread's own
        own = os.environ.get("NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in {"", "0"}
        return PER_THREAD if own and "numba" in sys.modules else 0

    return ArrayReader(locate, "interface", stream=stream)


def place_of(driver: Driver, address: int) -> Place | None:
    ordinal = driver.pointer(address, _ORDINAL) if address else None
    if ordinal is None:
        return None
    context = driver.pointer(address, _CONTEXT)  # none: memory of a pool, which belongs to the device
    return given_context(driver, context).place if context else ordinal


def _dlpack(accept: Accept) -> ArrayReader:
    """Arrays of JAX and those with DLPack alone: their library waits before, but is not told when the kernel has
    ended.
    """

    def locate(array: Any) -> Located:
        kind, device = array.__dlpack_device__()
        if kind not in _REACHABLE:
            raise _host_memory(array)
        return (int(device) if kind == _CUDA else None), 0

    def late(array: Any, stream: int) -> int:
        capsule = array.__dlpack__(stream=stream or LEGACY)
        tensor = tensor_of(capsule)
        accept(_typestr(tensor))
        return address_of(array, tensor)

    return ArrayReader(locate, late=late)


def _typestr(tensor: DLTensor) -> str:
    kind = DLPACK_KINDS.get(tensor.code)
    return f"<{kind}{tensor.bits // 8}" if kind and (kind == "V" or tensor.lanes == 1) else ""


class Reader(NamedTuple):
    code: str
    given: Given
    value: Callable[[Any], Any] | None = None


def reader(position: int, value: Any, spelled: str = "") -> Reader:
    """Return how numbers and structs of this one's type are passed; raises TypeError for anything else."""
    kind = type(value)
    if is_scalar(kind) and value.dtype.name == "bfloat16":
        return Reader("0H2s", Given("scalar", "<V2", 2, type_name(kind)), kind.tobytes)
    try:
        given = given_value(value)
        if given is None:
            raise _host_memory(value) if _is_on_host(value) else TypeError(refusal(value, spelled))
        if given.kind == "struct":
            return Reader(f"0Q{given.size}s", given, bytes)
        if given.kind != "scalar":
            return Reader("P", given, _pointer)
        code = _CODES.get(given.dtype[1:])
        if code is None:  # GPUs have no long double
            raise TypeError(f"{given.type} is not a type that a kernel can have")
    except TypeError as error:
        raise TypeError(f"argument {position}: {error}") from None
    if isinstance(value, ctypes._SimpleCData):
        return Reader(code, given, whole if isinstance(value.value, (bytes, str)) else attrgetter("value"))
    return Reader(code, given, kind.tobytes if "s" in code else None)


def _pointer(value: Any) -> int:
    return ctypes.cast(value, c_void_p).value or 0


def _limited(parameter: Parameter, position: int, least: int, most: int, read: Any) -> Callable[[Any], int]:
    """Return a function for numbers whose type has values that the parameter's does not have."""

    def value_of(number: Any) -> int:
        value = int(number) if read is None else int(read(number))
        if not least <= value <= most:
            raise TypeError(outside(parameter, position, value))
        return value

    return value_of


def _placeless(read: Callable[[Any], Any]) -> Callable[[Any, Place], Any]:
    return lambda value, _: read(value)


def _packer(head: str, codes: Sequence[tuple[str, str]]) -> tuple[Callable[..., None], int, list[int]]:
    code, offsets = head, []
    for alignment, part in codes:
        offsets.append(struct.calcsize(code + alignment))
        code += part
    packer = struct.Struct(code)
    return packer.pack_into, packer.size, offsets


def _accept(parameter: Parameter, position: int, name: str, dtype: str) -> None:
    problem = misfit(parameter, position, Given("array", dtype, 8, name))
    if problem:
        raise TypeError(problem)


class Layout:
    """How the arguments of one launch signature are read and packed.

    `readers` has a function for each argument that is not packed as it is; that of an array returns its place, too.
    `arrays`, `memories`, `pointers` (bare addresses) and `floats` are positions. `streams` has a function for the
    stream of an array by its position, and `sources` those that count: one for each library. `late` are the arrays that
    are read once the launch's stream is known.

    `direct` has the readers of the usual launch, which has arrays of one library, or `Memory` on the default stream;
    None if the arguments are others. `current` returns that library's stream. `usuals` is what such launches use in
    each place, and `usual` what the last one did.
    """

    __slots__ = ("_offsets", "_size", "arrays", "current", "direct", "floats", "late", "memories", "node_offsets",
                 "node_size", "pack", "pack_node", "pointers", "pool", "readers", "sources", "streams", "usual",
                 "usuals")  # fmt: skip

    def __init__(self, arguments: Sequence[Any], entry: Entry, driver: Driver) -> None:
        self.readers: list[Callable[[Any], Any] | None] = []
        self.arrays: list[int] = []
        self.memories: list[int] = []
        self.pointers: list[int] = []
        self.streams: dict[int, Callable[[Any, Any], int]] = {}
        self.sources: list[tuple[int, Callable[[Any, Any], int]]] = []
        self.late: list[tuple[int, Callable[[Any, int], int]]] = []
        codes: list[tuple[str, str]] = []
        libraries: set[str] = set()
        given: list[Given] = []
        directs: list[Callable[[Any, Place], Any] | None] = []
        is_usual, current = True, None
        parameters = entry.parameters or ()
        for position, value in enumerate(arguments):
            parameter = parameters[position] if position < len(parameters) else _UNKNOWN
            array = _array_reader(
                value, partial(_accept, parameter, position, type_name(type(value))), driver
            )
            if array is None:
                number = reader(position, value, spelled(parameter, value))
                given.append(number.given)
                alignment = number.code[:2] if number.code[0] == "0" else f"0{number.code}"
                part, read = number.code, number.value
                if read is _pointer:
                    self.pointers.append(position)
                bounds = limits(parameter, number.given.dtype)
                if bounds is not None:
                    read = _limited(parameter, position, *bounds, read)
                direct = None if read is None else _placeless(read)
            else:
                given.append(given_array(type(value), value.dtype if array.library == _MEMORY else ""))
                alignment, part, read = "0P", "P", array.locate
                self._add_array(position, array, libraries)
                direct = array.address
                is_usual, current = is_usual and direct is not None, array.current
            directs.append(direct)
            codes.append((alignment, part))
            self.readers.append(read)
        check(entry, given)
        self.floats = [at for at, (_, part) in enumerate(codes) if part in {"e", "f", "d"}]
        one_library = len(self.sources) + bool(self.memories) == 1
        self.direct = directs if is_usual and one_library else None
        self.current = current
        self.pack, self._size, self._offsets = _packer(_HEAD, codes)
        self.pack_node, self.node_size, self.node_offsets = _packer(NODE, codes)
        self.pool: list[Frame] = []
        self.usual: Any = None
        self.usuals: dict[Place, Any] = {}

    def _add_array(self, position: int, array: ArrayReader, libraries: set[str]) -> None:
        self.arrays.append(position)
        if array.late is not None:
            self.late.append((position, array.late))
        if array.library == _MEMORY:
            self.memories.append(position)
        if array.stream is None:
            return
        self.streams[position] = array.stream
        # arrays with the interface name a stream each, others have one for all
        if array.library == "interface" or array.library not in libraries:
            self.sources.append((position, array.stream))
            libraries.add(array.library)

    def frame(self) -> Frame:
        """Return memory for a launch; put it back into `pool` when the driver has copied its content."""
        try:
            return self.pool.pop()
        except IndexError:
            return Frame(self._size, self._offsets)


def aligned(size: int) -> Any:
    raw = (c_uint64 * (size // 8 + 3))()
    return (c_char * size).from_buffer(raw, -ctypes.addressof(raw) % 16)


class Frame:
    """The memory of one launch at a time, from `buffer` on: CUlaunchConfig, then the arguments."""

    __slots__ = ("buffer", "config", "current", "current_at", "parameters")

    def __init__(self, size: int, offsets: Sequence[int]) -> None:
        self.buffer = aligned(size)
        self.current = c_void_p()  # for the context that is current at a launch
        self.current_at = byref(self.current)
        base = ctypes.addressof(self.buffer)
        self.config = byref(self.buffer)
        self.parameters = byref((c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets)))

    def add_attributes(self, attributes: Any) -> None:
        c_void_p.from_buffer(self.buffer, _ATTRIBUTES).value = ctypes.addressof(attributes)
        ctypes.c_uint.from_buffer(self.buffer, _ATTRIBUTES + 8).value = len(attributes)
