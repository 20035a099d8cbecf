"""Reads arrays in the CPU's memory: NumPy's, buffers, and those of DLPack such as torch's."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Sequence
from ctypes import c_int, c_int64, c_uint8, c_uint64, c_void_p
from typing import Any, NamedTuple

from .given import refusal
from .signature import Parameter, reads_only

_REACHABLE = {1, 3, 11}  # DLDeviceType: kDLCPU, kDLCUDAHost, kDLROCMHost
_READ_ONLY, _IS_COPIED = 1, 2  # DLPACK_FLAG_BITMASK_…
_NATIVE = "<" if sys.byteorder == "little" else ">"
DLPACK_KINDS = {0: "i", 1: "u", 2: "f", 4: "V", 5: "c", 6: "b"}  # DLDataTypeCode
_BUFFER_KINDS = {
    **dict.fromkeys("bhilqn", "i"),
    **dict.fromkeys("BHILQN", "u"),
    **dict.fromkeys("efdg", "f"),
    "?": "b",
    **dict.fromkeys(("Zf", "Zd", "Zg"), "c"),
}  # of `struct` and PEP 3118
_WORDS = {"i": "int", "u": "uint", "f": "float", "c": "complex", "b": "bool"}
_CONTENTS = {
    "O": "Python objects, of which a kernel would see the addresses: convert it, as by .astype('float32')",
    **dict.fromkeys("SUT", "text: pass its bytes, as an array of uint8"),
    **dict.fromkeys("mM", "times: pass .view('int64')"),
}
_IMMUTABLE = {"jax", "jaxlib"}  # whose arrays never change, and DLPack does not say so
_FULL_RO = 0x11C  # PyBUF_FULL_RO: whatever its form, and read-only


class DLTensor(ctypes.Structure):
    """An array on a device, the head of DLManagedTensor; https://dmlc.github.io/dlpack/latest/c_api.html.

    `code` is its elements' kind, of `lanes` numbers each.
    """

    _fields_ = (
        ("data", c_void_p), ("device_type", c_int), ("device_id", c_int), ("ndim", c_int), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (  # the head of DLManagedTensorVersioned
        ("version", c_uint64), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", DLTensor),
    )  # fmt: skip


class _Buffer(ctypes.Structure):
    _fields_ = (  # Py_buffer; https://docs.python.org/3/c-api/buffer.html
        ("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", c_int), ("ndim", c_int),
        *((name, c_void_p) for name in ("format", "shape", "strides", "suboffsets", "internal")),
    )  # fmt: skip


def _of_python(name: str, result: Any, *types: Any) -> Any:
    """Return a function of Python's own: the attributes of `pythonapi` are shared with every other package."""
    return ctypes.PYFUNCTYPE(result, *types)((name, ctypes.pythonapi))


_pointer_of = _of_python("PyCapsule_GetPointer", c_void_p, ctypes.py_object, ctypes.c_char_p)
_is_valid = _of_python("PyCapsule_IsValid", c_int, ctypes.py_object, ctypes.c_char_p)
_get_buffer = _of_python("PyObject_GetBuffer", c_int, ctypes.py_object, c_void_p, c_int)
_release_buffer = _of_python("PyBuffer_Release", None, c_void_p)


def refuse_gaps(array: Any, shape: Sequence[int], strides: Sequence[int], step: int) -> None:
    """Raise ValueError unless the elements fill one block of memory, from the array's address on.

    The axes may come in any order, so an array in Fortran's order is accepted. `step` is the distance of neighbours in
    the unit of `strides`: an element's bytes, or 1.
    """
    if 0 in shape:
        return
    given = tuple(strides)
    for stride, count in sorted(zip(given, shape)):
        if count == 1:
            continue
        if stride != step:
            raise ValueError(
                f"{type(array).__name__} of shape {tuple(shape)} with strides {given} is not contiguous, and a kernel "
                "only gets its address: pass a contiguous copy (ascontiguousarray of NumPy and CuPy, contiguous of "
                "torch). If the kernel takes the strides as arguments, pass the address as ctypes.c_void_p"
            )
        step *= count


def tensor_of(capsule: object) -> DLTensor:
    """Return the array in a capsule of DLPack, which must live as long as it."""
    return DLTensor.from_address(_pointer_of(capsule, b"dltensor"))


def address_of(array: object, tensor: DLTensor) -> int:
    """Return the address of an array; raises ValueError for one with gaps."""
    if tensor.strides:  # NULL: contiguous
        refuse_gaps(array, tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim], 1)
    return int((tensor.data or 0) + tensor.byte_offset)


def _writable_tensor_of(array: Any) -> tuple[object, DLTensor, bool]:
    """Return the capsule of an array, the array in it, and whether it may be written; before DLPack 1.0 it may."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:  # its library is older
        capsule = array.__dlpack__()
    if not _is_valid(capsule, b"dltensor_versioned"):
        return capsule, tensor_of(capsule), True
    managed = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
    return capsule, managed.tensor, not managed.flags & (_READ_ONLY | _IS_COPIED)


class HostArray(NamedTuple):
    """An array in the CPU's memory: `size` bytes, if it has no gaps.

    `dtype` is NumPy's name of its elements' type, "<f4", "" for raw bytes. What `owner` refers to keeps the memory
    where it is.
    """

    value: Any
    owner: Any
    address: int
    size: int
    itemsize: int
    writable: bool
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in bytes; None: in C's order

    @property
    def name(self) -> str:
        """Its type and shape, for people."""
        kind, elements = type(self.value).__name__, ""
        if self.dtype[1:2] in _WORDS:
            elements = f" of {_WORDS[self.dtype[1]]}{8 * self.itemsize if self.dtype[1] != 'b' else ''}"
        return f"{kind}{elements} with shape {self.shape}" if elements or len(self.shape) > 1 else kind

    @property
    def in_c_order(self) -> bool:
        """Whether its elements fill one block of memory in C's order."""
        if self.strides is None or 0 in self.shape:
            return True
        step = self.itemsize
        for stride, count in zip(reversed(self.strides), reversed(self.shape)):
            if count != 1 and stride != step:
                return False
            step *= count
        return True

    def bytes(self) -> memoryview:
        """Return its memory; it must be in C's order."""
        return memoryview((ctypes.c_char * self.size).from_address(self.address)).cast("B")


def host_array(value: Any) -> HostArray | None:
    """Return an array in the CPU's memory, None for anything else.

    Raises TypeError for elements that have no C type, such as objects and dates, and ValueError for memory that was
    given back.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _of_numpy(numpy, value)
    if isinstance(value, type):
        return None
    try:
        view = memoryview(value)
    except TypeError:
        return _of_dlpack(value)
    except BufferError as error:  # of elements that have no format, JAX's bfloat16
        found = _of_dlpack(value)
        if found is None:
            raise TypeError(f"{type(value).__name__} does not give its memory: {error}") from error
        return found
    return _of_buffer(value, view)


def pointee_of(array: HostArray) -> int:
    """Return the address that a kernel gets for an array.

    Its elements must fill one block of memory, in any order of the axes, and be aligned; raises ValueError.
    """
    if array.strides is not None:
        refuse_gaps(array.value, array.shape, array.strides, array.itemsize)
    kind, alignment = array.dtype[1:2], array.itemsize & -array.itemsize
    if (
        array.size
        and kind in set("iufc")
        and array.address % min(alignment, 8 if kind != "c" else alignment // 2)
    ):
        raise ValueError(
            f"{array.name} is at an address that is not a multiple of its elements' size: pass a copy"
        )
    return array.address


def refuse_read_only(array: HostArray, parameter: Parameter) -> None:
    """Raise ValueError for a read-only array, unless a kernel only reads what the parameter points to."""
    if array.size and not array.writable and not reads_only(parameter):
        raise ValueError(
            f"{array.name} is read-only, {written(parameter)}: pass a copy that can be written, bytearray(…) or "
            "numpy.array(…)"
        )


def written(parameter: Parameter) -> str:
    """Return why a kernel may write into what a parameter points to, for an error."""
    if parameter.type:
        return f"and the parameter is {parameter.type}, not const"
    return "and the kernel may write into it"


def source_of(value: Any, size: int | None = None) -> HostArray:
    """Return an array to copy from, of `size` bytes if that is given; raises TypeError, ValueError."""
    array = host_array(value)
    if array is None:
        raise TypeError(f"an array in the CPU's memory is expected: {refusal(value)}")
    if not array.in_c_order:
        raise ValueError(
            f"{array.name} and strides {array.strides} is not one block of memory in C's order: copy it with "
            "numpy.ascontiguousarray(array)"
        )
    if size is not None and array.size != size:
        raise ValueError(f"{array.name} has {array.size} bytes, and the memory {size}")
    return array


def target_of(value: Any, size: int) -> HostArray:
    """Return a writable array of `size` bytes to copy into; raises TypeError, ValueError."""
    array = source_of(value, size)
    if array.size and not array.writable:
        raise ValueError(f"{array.name} is read-only: read into an array that can be written")
    return array


def _of_numpy(numpy: Any, value: Any) -> HostArray:
    if isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise TypeError("a kernel does not see the mask of a masked array: pass array.filled() or array.data")
    plain = numpy.ndarray.view(value, numpy.ndarray)  # a subclass may have other attributes
    dtype = plain.dtype
    if dtype.hasobject or dtype.kind in "SUTmM":
        raise TypeError(f"an array of {dtype} has {_CONTENTS.get(dtype.kind, _CONTENTS['O'])}")
    if not dtype.isnative:
        raise TypeError(_foreign(f"an array of {dtype}"))
    strides = None if plain.flags.c_contiguous else plain.strides
    return HostArray(
        value, plain, plain.__array_interface__["data"][0], plain.nbytes, dtype.itemsize, plain.flags.writeable,
        dtype.str, plain.shape, strides,
    )  # fmt: skip


def _of_buffer(value: Any, view: memoryview) -> HostArray:
    kind = type(value).__name__
    form = re.sub(r":[^:]*:", "", view.format)  # without the names of fields
    if "O" in form or "u" in form or "w" in form:
        raise TypeError(f"{kind} has {_CONTENTS['O' if 'O' in form else 'U']}")
    if re.search(r"z|Z(?![fdg])", form):
        raise TypeError(f"{kind} has pointers to text of Python, which must not change: use ctypes.c_void_p")
    if set(form) & ({">", "!"} if _NATIVE == "<" else {"<"}):
        raise TypeError(_foreign(kind))
    if form[:1] in {"&", "X"} and not view.ndim:
        raise TypeError(f"{kind} is a pointer of ctypes, and not an array")
    if any(offset >= 0 for offset in view.suboffsets or ()):
        raise ValueError(f"{kind} is not one block of memory, but has pointers to parts: pass a copy")
    letter = _BUFFER_KINDS.get(form.lstrip("@=<>"), "")
    raw = not letter or (form == "B" and not hasattr(value, "typecode"))  # bytes, and not an array of numbers
    head = _Buffer()
    _get_buffer(view, ctypes.byref(head), _FULL_RO)
    address = head.buf or 0
    _release_buffer(ctypes.byref(head))  # the view still holds the memory
    strides = None if view.c_contiguous else view.strides
    return HostArray(
        value, view, address, view.nbytes, view.itemsize, not view.readonly,
        "" if raw else f"{_NATIVE}{letter}{view.itemsize}", view.shape or (), strides,
    )  # fmt: skip


def _of_dlpack(value: Any) -> HostArray | None:
    if not hasattr(value, "__dlpack_device__") or value.__dlpack_device__()[0] not in _REACHABLE:
        return None
    try:
        capsule, tensor, writable = _writable_tensor_of(value)
    except Exception as error:  # of its library
        raise TypeError(f"{type(value).__name__} does not give its memory: {error}") from error
    letter = DLPACK_KINDS.get(tensor.code)
    if letter is None:
        raise TypeError(f"{type(value).__name__} has elements that have no C type")
    itemsize = (tensor.bits * tensor.lanes + 7) // 8
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(step * itemsize for step in tensor.strides[: tensor.ndim]) if tensor.strides else None
    writable = writable and type(value).__module__.partition(".")[0] not in _IMMUTABLE
    return HostArray(
        value, (value, capsule), (tensor.data or 0) + tensor.byte_offset, math.prod(shape) * itemsize, itemsize,
        writable, f"{_NATIVE}{letter}{itemsize}" if tensor.lanes == 1 else "", shape, strides,
    )  # fmt: skip


def _foreign(what: str) -> str:
    convert = "array.astype(array.dtype.newbyteorder('='))"
    return f"{what} is not in the byte order of this machine: convert it with {convert}"


class Uploads:
    """A kernel with memory on its device, which `memory` allocates."""

    __slots__ = ()
    memory: Any

    def upload(self, source: Any) -> Any:
        """Return device memory with a copy of an array in C's order; raises TypeError, ValueError, DriverError."""
        memory = self.memory(source_of(source).size)
        try:
            memory.write(source)
        except BaseException:
            memory.free()
            raise
        return memory
