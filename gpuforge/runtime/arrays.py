"""Arrays in the memory of GPUs, by the libraries that make them: place, address, and the stream of their work.

A kernel runs where its arrays are, and in the order of their library: what the library queued before is done before,
and what it queues afterwards comes after.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, Optional

from .context import Place, given_context
from .dlpack import DLTensor, address_of, tensor_of
from .driver import Driver
from .memory import Memory
from .stream import LEGACY, PER_THREAD
from .strides import refuse_gaps

_CUDA = 2  # DLDeviceType: kDLCUDA
_REACHABLE = {_CUDA, 3, 13}  # kDLCUDAHost, kDLCUDAManaged
_CONTEXT, _ORDINAL = 1, 9  # CUpointer_attribute
_BFLOAT = 4  # DLDataTypeCode
MEMORY = "memory"  # the library of `Memory`, which keeps its own order

# raises TypeError for elements of a type, as NumPy and ml_dtypes write it: "<f4", bfloat16 "<V2"; "" is not known
Accept = Callable[[str], None]
Located = tuple[Optional[Place], int]  # where an array is, None if nothing says it, and its address


class ElsewhereError(Exception):
    """An array is not where it is expected, or is not ready there: the launch must be looked at as a whole."""


class ArrayReader(NamedTuple):
    """How arrays of one type are passed, for one argument.

    `locate` returns the place and the address of an array; it raises TypeError for host memory and for elements of
    another type, ValueError for an array with gaps. `address`, for the usual launch, returns only the address, and
    raises ElsewhereError for an array in another place; without it there is no such launch.
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


def array_reader(value: Any, accept: Accept, driver: Driver) -> ArrayReader | None:
    """Return how arrays of a value's type are passed, None for a value that is not in a GPU's memory."""
    if isinstance(value, Memory):
        return ArrayReader(Memory.located, MEMORY, _of_memory)
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


def is_on_host(value: Any) -> bool:
    """Return whether a value is an array in the CPU's memory."""
    try:
        if not hasattr(value, "__dlpack_device__"):  # torch's tensors are not buffers
            memoryview(value)
    except TypeError:
        return False
    return True


def host_memory(value: Any) -> TypeError:
    """Return the error for an array in host memory."""
    return TypeError(
        f"{type(value).__name__} is host memory, which no kernel can read: copy it with kernel.upload(array), "
        "and the result back with Memory.read(array)"
    )


def _home(kind: type) -> str:
    """Return the library of a type of arrays that is read in a way of its own, also of a class derived from it."""
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
            raise host_memory(tensor)
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

    current = getattr(
        torch._C, "_cuda_getCurrentRawStream", of_device
    )  # Triton's way, at a tenth of the time
    return ArrayReader(locate, "torch", address_in, lambda place, _: current(place), current)


_TORCH = {
    "bool": "|b1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "|u1", "uint16": "<u2",
    "uint32": "<u4", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
    "complex128": "<c16", "bfloat16": "<V2",
}  # fmt: skip


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
    """Return how an array with `__cuda_array_interface__` is passed; the driver knows where it is.

    https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
    """

    accepted: set[str] = set()

    def locate(array: Any) -> Located:
        try:
            interface = array.__cuda_array_interface__
        except AttributeError:  # some of one type may be in host memory
            raise host_memory(array) from None
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
        return int(found) if found is not None else _default_of_numba()

    return ArrayReader(locate, "interface", stream=stream)


def _default_of_numba() -> int:
    """Return the stream of an array that names none: the default one, which Numba can make each thread's own."""
    own = os.environ.get("NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in {"", "0"}
    return PER_THREAD if own and "numba" in sys.modules else 0


def place_of(driver: Driver, address: int) -> Place | None:
    """Return where an address of device memory is, None if the driver does not know it; raises DriverError."""
    ordinal = driver.pointer(address, _ORDINAL) if address else None
    if ordinal is None:
        return None
    context = driver.pointer(address, _CONTEXT)  # none: memory of a pool, which belongs to the device
    return given_context(driver, context).place if context else ordinal


def _dlpack(accept: Accept) -> ArrayReader:
    """Return how an array of JAX is passed, or one that has only DLPack.

    Its library makes the launch's stream wait for its own work. Nothing tells the library when the kernel has ended, so
    that it could use the memory again.
    """

    def locate(array: Any) -> Located:
        kind, device = array.__dlpack_device__()
        if kind not in _REACHABLE:
            raise host_memory(array)
        return (int(device) if kind == _CUDA else None), 0

    def late(array: Any, stream: int) -> int:
        capsule = array.__dlpack__(stream=stream or LEGACY)
        tensor = tensor_of(capsule)
        accept(_typestr(tensor))
        return address_of(array, tensor)

    return ArrayReader(locate, late=late)


def _typestr(tensor: DLTensor) -> str:
    kind = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}.get(tensor.code)  # DLDataTypeCode
    if tensor.code == _BFLOAT:
        return "<V2"
    return f"<{kind}{tensor.bits // 8}" if kind and tensor.lanes == 1 else ""
