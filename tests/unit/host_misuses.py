"""What a kernel for the CPU must refuse: a table of calls, and a program that makes each of them in one process.

`host_misuses.py LIBRARY` prints each call's error.
"""

import ctypes
import mmap
import sys
from array import array
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from dlpack_samples import Capsuled

from gpuforge.runtime.backends.opencl.kernel import OpenClMemory
from gpuforge.runtime.backends.system import HostKernel, load
from gpuforge.runtime.signature import Entry, Parameter, plain_entry

SOURCE = """\
int variable;
void scale(unsigned long long n, float a, float *x)
{
    for (unsigned long long i = 0; x && i < n; i++) x[i] *= a;
}
"""
TYPED = Entry(
    "scale", "scale", (Parameter("unsigned long long", 8), Parameter("float", 4), Parameter("float *", 8))
)
SIZED = Entry("scale", "scale", (Parameter("", 8), Parameter("", 4), Parameter("", 8)))
N, A = np.uint64(2), np.float32(2)
BYTES = bytes(range(8))
NEGATIVE = (ctypes.c_int64 * 2)(-2, 2)


class OnDevice:
    """An array of CuPy."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2,), "typestr": "<f4", "data": (8, False), "version": 3}


class Unified:
    """An array of DLPack on a GPU."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("it is not read")


class Series:
    """An array of pandas."""

    def __array__(self, *_: object, **__: object) -> Any:
        return np.ones(2, "f4")


class Picture:
    """An array of Pillow, whose interface has bytes in place of an address."""

    __array_interface__ = MappingProxyType(
        {"shape": (2,), "typestr": "<f4", "data": b"12345678", "version": 3}
    )


class Swapped(ctypes.BigEndianStructure):
    _fields_ = (("a", ctypes.c_float),)


class Holder(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("object", ctypes.py_object))


class Named(ctypes.Structure):
    _fields_ = (("names", ctypes.c_char_p * 2),)


class Either(ctypes.Union):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int))


class Bits(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int, 3), ("b", ctypes.c_int, 29))


class One(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float),)


class Empty(ctypes.Structure):
    _fields_ = ()


class Large(ctypes.Structure):
    _fields_ = (("content", ctypes.c_char * (100 << 20)),)


def lying(**changed: Any) -> Any:
    """An array of DLPack whose description is changed."""
    x = floats(6)
    array = Capsuled(x.ctypes.data, 1, kept=x)
    for name, value in changed.items():
        setattr(array._managed.tensor, name, value)
    return array


def floats(count: int = 2) -> Any:
    return np.ones(count, "f4")


def read_only(value: Any) -> Any:
    value.flags.writeable = False
    return value


def freed(kernel: HostKernel) -> Any:
    with kernel.upload(floats()) as memory:
        pass
    memory.free()
    return memory


def unaligned() -> Any:
    return np.frombuffer(bytearray(9), "f4", 2, 1)


def released() -> memoryview:
    view = memoryview(bytearray(8))
    view.release()
    return view


def resized(kernel: HostKernel) -> None:
    x = np.ones(1000, "f4")
    again = kernel.bind(1, 1, N, A, x)
    x.resize(100_000, refcheck=False)
    again()


def freed_after_bind(kernel: HostKernel) -> None:
    memory = kernel.upload(floats())
    again = kernel.bind(1, 1, N, A, memory)
    memory.free()
    again()


def resized_buffer(kernel: HostKernel) -> None:
    x = bytearray(8)
    again = kernel.bind(1, 1, N, A, x)
    try:
        x.extend(bytes(1 << 20))
    finally:
        again()


def _x(value: Callable[[], Any]) -> Callable[[HostKernel], Any]:
    return lambda kernel: kernel.launch(1, 1, N, A, value())


def _a(value: Callable[[], Any]) -> Callable[[HostKernel], Any]:
    return lambda kernel: kernel.launch(1, 1, N, value(), floats())


def _size(*, grid: Any = 1, block: Any = 1, **changed: Any) -> Callable[[HostKernel], Any]:
    return lambda kernel: kernel.launch(grid, block, N, A, floats(), **changed)


def _of(entry: Entry, *arguments: Callable[[], Any]) -> Callable[[HostKernel], Any]:
    def misuse(kernel: Any) -> None:
        typed = HostKernel(entry, kernel._function) if isinstance(kernel, HostKernel) else kernel
        typed.launch(1, 1, *(each() for each in arguments))

    return misuse


def _typed(n: Any = N, a: Any = A, x: Callable[[], Any] = floats) -> Callable[[HostKernel], Any]:
    return _of(TYPED, lambda: n, lambda: a, x)


MISUSES: dict[str, Callable[[HostKernel], Any]] = {
    "freed memory": lambda kernel: kernel.launch(1, 1, N, A, freed(kernel)),
    "freed memory: read": lambda kernel: freed(kernel).read(floats()),
    "freed memory: write": lambda kernel: freed(kernel).write(floats()),
    "freed memory: address": lambda kernel: freed(kernel).address,
    "freed memory: bound": freed_after_bind,
    "an array resized after bind": resized,
    "a buffer resized after bind": resized_buffer,
    "an array of objects": _x(lambda: np.array([1.0, None])),
    "an array of structs with objects": _x(lambda: np.zeros(2, [("a", "f4"), ("b", object)])),
    "an array of bytes' texts": _x(lambda: np.array([b"1234", b"5678"])),
    "an array of texts": _x(lambda: np.array(["1", "2"])),
    "an array of texts of any length": _x(lambda: np.array(["1", "2"], np.dtypes.StringDType())),
    "an array of texts, of the standard library": _x(lambda: array("u", "ab")),
    "an array of times": _x(lambda: np.zeros(2, "M8[s]")),
    "an array of durations": _x(lambda: np.zeros(2, "m8[s]")),
    "an array in another byte order": _x(lambda: np.ones(2, ">f4")),
    "an array of structs in another byte order": _x(lambda: np.ones(2, [("a", "<f4"), ("b", ">i4")])),
    "a buffer in another byte order": _x(lambda: memoryview(np.ones(2, ">f4"))),
    "a masked array": _x(lambda: np.ma.masked_array(floats(), [True, False])),
    "an array with gaps": _x(lambda: floats(4)[::2]),
    "an array of structs with an array in another byte order": _x(lambda: np.ones(2, [("a", ">f4", (2,))])),
    "an array backwards": _x(lambda: floats()[::-1]),
    "an array that repeats an element": _x(lambda: np.broadcast_to(np.float32(1), (2,))),
    "a buffer with gaps": _x(lambda: memoryview(bytearray(16))[::2]),
    "an array that is not aligned": _x(unaligned),
    "a read-only array": _x(lambda: read_only(floats())),
    "a read-only array of a buffer": _x(lambda: np.frombuffer(BYTES, "f4")),
    "bytes": _x(lambda: BYTES),
    "a view of bytes": _x(lambda: memoryview(BYTES)),
    "a read-only view": _x(lambda: memoryview(bytearray(8)).toreadonly()),
    "a released view": _x(released),
    "a read-only map of memory": _x(lambda: mmap.mmap(-1, 8, access=mmap.ACCESS_READ)),
    "a pointer to bytes": _x(lambda: ctypes.c_char_p(BYTES)),
    "a pointer to text": _x(lambda: ctypes.c_wchar_p("ab")),
    "an int": _x(lambda: 5),
    "a negative int": _a(lambda: -5),
    "an int of 5,000 digits": _a(lambda: 10**5000),
    "a float": _a(lambda: 2.0),
    "a bool": _a(lambda: True),
    "a complex number": _a(lambda: 2j),
    "None": _x(lambda: None),
    "text": _x(lambda: "text"),
    "a list": _x(lambda: [1.0, 2.0]),
    "a tuple": _x(lambda: (1.0, 2.0)),
    "a set": _x(lambda: {1.0}),
    "a dict": _x(lambda: {"a": 1.0}),
    "a generator": _x(lambda: (x for x in (1.0, 2.0))),
    "a type": _a(lambda: np.float32),
    "a type of arrays": _x(lambda: OnDevice),
    "an array's type": _x(lambda: np.ndarray),
    "a function": _x(lambda: len),
    "an array of pandas": _x(Series),
    "an array of Pillow": _x(Picture),
    "an object": _x(object),
    "an array on a GPU": _x(OnDevice),
    "an array of DLPack on a GPU": _x(Unified),
    "memory of OpenCL": _x(lambda: object.__new__(OpenClMemory)),
    "a complex number of NumPy": _a(lambda: np.complex64(1)),
    "half a float": _a(lambda: np.float16(1)),
    "a time": _a(lambda: np.datetime64(1, "s")),
    "a struct of NumPy": _a(lambda: np.zeros(1, "i4,f4")[0]),
    "a text of NumPy": _a(lambda: np.str_("a")),
    "a Python object of ctypes": _x(lambda: ctypes.py_object(1)),
    "a struct with a Python object": _x(lambda: Holder(1, object())),
    "an array with Python objects of ctypes": _x(ctypes.py_object * 2),
    "a number of ctypes in another byte order": _a(lambda: ctypes.c_float.__ctype_be__(2)),  # type: ignore[attr-defined]
    "a struct in another byte order": _a(lambda: Swapped(2)),
    "a struct with texts": _a(Named),
    "a struct without fields": _a(Empty),
    "an array of texts of ctypes": _x(lambda: (ctypes.c_char_p * 2)(b"a", b"b")),
    "a struct of 100 MB": _a(Large),
    "a union": _a(Either),
    "a struct of bit fields": _a(Bits),
    "types: a struct for a float": _typed(a=One(2)),
    "an array of DLPack with 2^30 axes": _x(lambda: lying(ndim=1 << 30)),
    "an array of DLPack with -1 axes": _x(lambda: lying(ndim=-1)),
    "an array of DLPack without a shape": _x(lambda: lying(shape=None)),
    "an array of DLPack with a negative axis": _x(lambda: lying(shape=ctypes.addressof(NEGATIVE))),
    "an array of DLPack that is on a GPU after all": _x(lambda: lying(type=2)),
    "a reference of ctypes": _x(lambda: ctypes.byref(ctypes.c_float(1))),
    "a function of ctypes": _x(lambda: ctypes.CFUNCTYPE(None)(lambda: None)),
    "a grid of 0": _size(grid=0),
    "a negative grid": _size(grid=-1),
    "a negative axis of a block": _size(block=(32, -1)),
    "a grid without axes": _size(grid=()),
    "a grid with four axes": _size(grid=(1, 1, 1, 1)),
    "a grid of a float": _size(grid=1.0),
    "a block of a float of NumPy": _size(block=np.float64(32)),
    "a block of a bool": _size(block=True),
    "a block of a list of texts": _size(block=["1"]),
    "a grid that is None": _size(grid=None),
    "a grid of 2^40": _size(grid=1 << 40),
    "a grid of 5,000 digits": _size(grid=(1, 10**5000)),
    "negative shared memory": _size(shared=-1),
    "half a byte of shared memory": _size(shared=0.5),
    "shared memory of a text": _size(shared="48K"),
    "a stream of text": _size(stream="mine"),
    "a keyword that there is not": _size(strem=0),
    "no grid": lambda kernel: kernel.launch(),  # type: ignore[call-arg]
    "memory of negative size": lambda kernel: kernel.memory(-1),
    "memory of half a byte": lambda kernel: kernel.memory(0.5),  # type: ignore[arg-type]
    "memory of 2^70 bytes": lambda kernel: kernel.memory(1 << 70),
    "memory of 2^60 bytes": lambda kernel: kernel.memory(1 << 60),
    "memory made larger": lambda kernel: setattr(kernel.memory(8), "size", 1 << 20),
    "shared memory of 5,000 digits": _size(shared=10**5000),
    "upload: Fortran's order": lambda kernel: kernel.upload(np.ones((3, 2), order="F")),
    "upload: gaps": lambda kernel: kernel.upload(floats(4)[::2]),
    "upload: backwards": lambda kernel: kernel.upload(memoryview(BYTES)[::-1]),
    "upload: objects": lambda kernel: kernel.upload(np.array([1, None])),
    "upload: another byte order": lambda kernel: kernel.upload(np.ones(2, ">f4")),
    "upload: a list": lambda kernel: kernel.upload([1.0, 2.0]),
    "upload: a pointer": lambda kernel: kernel.upload(ctypes.pointer(ctypes.c_float(1))),
    "upload: an address": lambda kernel: kernel.upload(ctypes.c_void_p(8)),
    "upload: a number": lambda kernel: kernel.upload(5),
    "write: another size": lambda kernel: kernel.memory(8).write(floats(3)),
    "read: another size": lambda kernel: kernel.memory(8).read(bytearray(4)),
    "read: Fortran's order": lambda kernel: kernel.memory(48).read(np.ones((3, 2), order="F")),
    "read: into bytes": lambda kernel: kernel.memory(8).read(BYTES),
    "read: into a read-only array": lambda kernel: kernel.memory(8).read(read_only(floats())),
    "read: into objects": lambda kernel: kernel.memory(8).read(np.array([None])),
    "types: doubles for floats": _typed(x=lambda: np.ones(2)),
    "types: half the floats": _typed(x=lambda: np.ones(4, "f2")),
    "types: ints for floats": _typed(x=lambda: array("i", [1, 2])),
    "types: doubles of ctypes": _typed(x=ctypes.c_double * 2),
    "types: a pointer to doubles": _typed(x=lambda: ctypes.pointer(ctypes.c_double())),
    "types: a number for a pointer": _typed(x=lambda: np.uint64(5)),
    "types: an array for a number": _typed(a=np.array(2, "f4")),
    "types: a double for a float": _typed(a=np.float64(2)),
    "types: a double of ctypes for a float": _typed(a=ctypes.c_double(2)),
    "types: an int of the same size for a float": _typed(a=np.int32(2)),
    "types: a short for a long": _typed(n=np.uint32(2)),
    "types: a negative number for an unsigned one": _typed(n=np.int64(-1)),
    "types: an int for an unsigned long": _typed(n=5),
    "types: an int for a float": _typed(a=5),
    "types: an int for a pointer": _typed(x=lambda: 5),
    "types: memory for a number": lambda kernel: _typed(n=kernel.memory(8))(kernel),
    "types: memory for a float": lambda kernel: _typed(a=kernel.memory(8))(kernel),
    "types: a read-only array": _typed(x=lambda: read_only(floats())),
    "types: an argument is missing": _of(TYPED, lambda: N, lambda: A),
    "types: an argument too many": _of(TYPED, lambda: N, lambda: A, floats, lambda: None),
    "sizes: a double for a float": _of(SIZED, lambda: N, lambda: np.float64(2), floats),
    "sizes: a float for a pointer": _of(SIZED, lambda: N, lambda: A, lambda: A),
    "sizes: no arguments": _of(SIZED),
    "read: a stream of text": lambda kernel: kernel.memory(8).read(floats(), stream="mine"),
}


def outcome(misuse: Callable[[Any], Any], kernel: Any) -> str:
    """Return the error of a misuse, for people."""
    try:
        found = misuse(kernel)
    except Exception as error:  # noqa: BLE001  any: this is what is looked at
        return f"{type(error).__name__}: {error}"
    return f"no error, but {found!r}"


def main(library: str) -> None:
    kernel = load(library, plain_entry("scale"), "no NVIDIA driver")
    misuses = dict(MISUSES)
    for name in ("variable", "malloc", "scale\0", "\ud800"):
        misuses[f"the name {name!r}"] = lambda _, name=name: load(library, plain_entry(name))  # type: ignore[misc]
    for name, misuse in misuses.items():
        sys.stdout.write(f"{name}\n    {outcome(misuse, kernel)}\n")
        assert bytes(range(8)) == BYTES, name


if __name__ == "__main__":
    main(*sys.argv[1:])
