"""A kernel for the CPU: a function of a library with a C interface, called like kernels on a GPU."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ...arguments import is_scalar
from ...dimensions import launch_size, size_of
from ...elf import NotReadable, defines
from ...errors import DriverError
from ...hostarray import HostArray, host_array, pointee_of, source_of, target_of
from ...index import Refused
from ...reason import Reason
from ...refusal import FREED, refusal
from ...stream import stream_handle

# numpy's scalars by kind and size -> C's types; ctypes passes no complex number by value before Python 3.14
_SCALARS = {
    "b1": ctypes.c_bool, "i1": ctypes.c_int8, "i2": ctypes.c_int16, "i4": ctypes.c_int32, "i8": ctypes.c_int64,
    "u1": ctypes.c_uint8, "u2": ctypes.c_uint16, "u4": ctypes.c_uint32, "u8": ctypes.c_uint64,
    "f4": ctypes.c_float, "f8": ctypes.c_double,
}  # fmt: skip
_scalar_types: dict[type, Any] = {}  # those of numpy's types that were used
_ctypes_problems: dict[type, str] = {}  # by type of ctypes that was used
_MOST = 32764  # bytes of all arguments, as with CUDA; C passes large structs on the stack
_OTHER_BACK_ENDS = __package__.rpartition(".")[0]


class HostMemory:
    """A copy of an array in the CPU's memory, so that code for a GPU runs here unchanged; see `Memory`."""

    __slots__ = ("_bytes", "size")

    def __init__(self, size: int) -> None:
        self.size = size_of("the memory's size", size)
        try:
            self._bytes: ctypes.Array[ctypes.c_char] | None = (ctypes.c_char * max(self.size, 1))()
        except OverflowError:
            raise MemoryError(f"{self.size} bytes are more than there can be") from None

    @property
    def address(self) -> int:
        """The address of its first byte; raises ValueError after `free`."""
        return ctypes.addressof(self.content())

    def write(self, source: Any, *, stream: Any = None) -> None:
        """Copy an array in the CPU's memory, of exactly `size` bytes in C's order; raises TypeError, ValueError."""
        stream_handle(stream)
        content, array = self.content(), source_of(source, self.size)
        ctypes.memmove(content, array.address, self.size)

    def read(self, target: Any, *, stream: Any = None) -> None:
        """Copy into an array of `size` bytes in C's order that can be written; raises TypeError, ValueError."""
        stream_handle(stream)
        content, array = self.content(), target_of(target, self.size)
        ctypes.memmove(array.address, content, self.size)

    def free(self) -> None:
        """Give the memory back when no kernel uses it any more; more than once is harmless."""
        self._bytes = None

    def content(self) -> ctypes.Array[ctypes.c_char]:
        """Return the memory, which lives as long as what is returned; raises ValueError after `free`."""
        content = self._bytes
        if content is None:
            raise ValueError(FREED)
        return content

    def __enter__(self) -> HostMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


class _Passed(NamedTuple):
    """An argument in ctypes' form; `kept` must live as long as the call. An array has a `place`: address and size."""

    value: Any
    kept: Any = None
    place: tuple[int, int] | None = None


class HostKernel:
    """A function of a library for the CPU. Safe to use from several threads if the function is.

    It gets the arguments and does the whole work: grid, block, shared memory and stream are checked, and not passed.
    `why` is the reason for which no GPU is used, "" if it is not known.
    """

    __slots__ = ("_function", "_why", "name")
    backend = "cpu"
    device = "CPU"

    def __init__(self, name: str, function: Any, why: str = "") -> None:
        self.name = name
        self._function = function
        self._why = why
        function.restype = None

    def memory(self, size: int) -> HostMemory:
        """Allocate `size` bytes."""
        return HostMemory(size)

    def upload(self, source: Any) -> HostMemory:
        """Return a copy of an array in C's order; read a kernel's results in it with `HostMemory.read`."""
        memory = HostMemory(source_of(source).size)
        memory.write(source)
        return memory

    def launch(self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None) -> None:
        """Call the function; it has finished when this returns.

        Arguments are as for `Kernel.launch`, with memory of the CPU: a `HostMemory`, or an array of NumPy or torch or
        another buffer, whose address is passed. An array that is read-only is refused: the function could write into
        it. Raises TypeError, and ValueError also for an array with gaps and for memory that was freed.
        """
        _check(grid, block, shared, stream)
        passed = self._passed(arguments)
        self._function(*[one.value for one in passed])

    def bind(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None
    ) -> Callable[[], None]:
        """Return a launch with these arguments that is repeated by calling it.

        Numbers are read now. A call raises ValueError if an array's memory was freed, moved or resized since.
        """
        _check(grid, block, shared, stream)
        bound = self._passed(arguments)

        def again() -> None:
            for number, (given, before) in enumerate(zip(arguments, bound)):
                if before.place and self._one_passed(number, given).place != before.place:
                    raise ValueError(f"argument {number}: the array was moved or resized after `bind`")
            self._function(*[one.value for one in bound])

        return again

    def _passed(self, arguments: tuple[Any, ...]) -> list[_Passed]:
        passed = [self._one_passed(number, value) for number, value in enumerate(arguments)]
        size = sum(ctypes.sizeof(one.value) for one in passed)
        if size > _MOST:
            raise ValueError(
                f"the arguments have {size} bytes, and the most is {_MOST}: pass large structs by address"
            )
        return passed

    def _one_passed(self, number: int, value: Any) -> _Passed:
        try:
            return self._argument(value)
        except TypeError as error:
            raise TypeError(f"argument {number}: {error}") from error.__cause__
        except ValueError as error:
            raise ValueError(f"argument {number}: {error}") from error.__cause__

    def _argument(self, value: Any) -> _Passed:
        if isinstance(value, HostMemory):
            content = value.content()
            address = ctypes.addressof(content)
            return _Passed(ctypes.c_void_p(address), content, (address, value.size))
        if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes._Pointer)):
            _refuse_ctypes(value)
            return _Passed(value)
        scalar = _scalar_types.get(type(value)) or _scalar_type(value)
        if scalar is not None:
            return _Passed(scalar(value.item()))
        array = host_array(value)
        if array is None:
            raise TypeError(self._refusal(value))
        address = pointee_of(array)
        if array.size and not array.writable:
            raise ValueError(_read_only(array))
        return _Passed(ctypes.c_void_p(address), array, (address, array.size))

    def _refusal(self, value: Any) -> str:
        if not _on_device(value):
            return refusal(value)
        why = f" ({self._why})" if self._why else ""
        return (
            f"{type(value).__name__} is not in the CPU's memory, where kernel {self.name} runs{why}: pass an array of "
            "NumPy. The kernel set's explain() says why no GPU is used"
        )


def load(file: str, name: str, why: str = "") -> HostKernel:
    """Open a library with local symbols, and return a function of it.

    Raises Refused for a file that cannot be opened, DriverError for a function that it does not have, TypeError.
    """
    if not isinstance(name, str):
        raise TypeError(f"a kernel's name is a str, not {type(name).__name__}")
    try:
        library = ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise Refused(Reason("not-opened", {"problem": str(error)})) from error
    if not _has_function(file, name):
        text = f'{file} has no function {name!r}: declare it extern "C"'
        raise DriverError("dlsym", 0, "NOT_FOUND", text)
    return HostKernel(name, library[name], why)


def _has_function(file: str, name: str) -> bool:
    """Return whether a library itself has a function: dlsym also finds variables, and functions of other libraries."""
    try:
        return "\0" not in name and defines(file, [name], functions=True)
    except UnicodeEncodeError:
        return False
    except (NotReadable, OSError) as error:
        raise Refused(Reason("not-opened", {"problem": str(error)})) from error


def _check(grid: Any, block: Any, shared: Any, stream: Any) -> None:
    launch_size(grid, block, shared)
    stream_handle(stream)


def _scalar_type(value: Any) -> Any:
    """Return C's type of a number of NumPy, None for another value; raises TypeError for a number that ctypes lacks."""
    if not is_scalar(value):
        return None
    scalar = _SCALARS.get(f"{value.dtype.kind}{value.dtype.itemsize}")
    if scalar is None:  # it has an address, as an array has
        raise TypeError(
            f"{type(value).__name__} cannot be passed to a function for the CPU; "
            "write a ctypes.Structure for a complex number or a struct, and convert other numbers"
        )
    _scalar_types[type(value)] = scalar
    return scalar


def _refuse_ctypes(value: Any) -> None:
    """Raise TypeError for a value of ctypes that is not C's, ValueError for a pointer to text that must not change."""
    kind = type(value)
    problem = _ctypes_problems.get(kind)
    if problem is None:
        problem = _ctypes_problems[kind] = _problem_of(kind)
    if problem:
        raise TypeError(f"{kind.__name__} {problem}")
    if isinstance(value, (ctypes.c_char_p, ctypes.c_wchar_p)) and value:
        raise ValueError(
            f"{kind.__name__} points to text that is read-only, and the kernel may write into it: pass "
            "ctypes.create_string_buffer(text)"
        )


def _problem_of(kind: Any) -> str:
    if issubclass(kind, ctypes._SimpleCData):
        if kind._type_ == "O":
            return "is a Python object, not a number of C"
        orders = [getattr(kind, name, None) for name in ("__ctype_le__", "__ctype_be__")]
        native, swapped = (
            orders if sys.byteorder == "little" else reversed(orders)
        )  # the same for single bytes
        is_swapped = swapped is not None and swapped is not native and issubclass(kind, swapped)
        return "is not in the byte order of this machine" if is_swapped else ""
    if issubclass(kind, ctypes.Array):
        return _problem_of(kind._type_)
    if not issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return ""
    if hasattr(kind, "_swappedbytes_"):
        return "is not in the byte order of this machine"
    parts = [field[1] for base in kind.__mro__ for field in base.__dict__.get("_fields_", ())]
    return next((f"has a field that {problem}" for problem in map(_problem_of, parts) if problem), "")


def _read_only(array: HostArray) -> str:
    return (
        f"{array.name} is read-only, and the kernel may write into it: pass a copy that can be written, "
        "bytearray(…) or numpy.array(…)"
    )


def _on_device(value: Any) -> bool:
    kind = type(value)
    return not isinstance(value, type) and (
        hasattr(kind, "__cuda_array_interface__")
        or hasattr(kind, "__dlpack_device__")
        or "__cuda_array_interface__" in getattr(value, "__dict__", ())
        or kind.__module__.startswith(_OTHER_BACK_ENDS)
        or kind.__module__.partition(".")[0] == "pyopencl"
    )
