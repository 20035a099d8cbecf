"""A kernel for the CPU: a function of a library with a C interface, called like kernels on a GPU."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import cpu
from ..driver import Probe
from ..elf import NotReadable, defines
from ..host_access import pointee_of, reads_only, refuse_read_only, written
from ..process import DriverError
from ..signature import (
    FREED,
    Entry,
    Given,
    Owned,
    Parameter,
    Uploads,
    check,
    check_count,
    given_array,
    given_value,
    host_array,
    launch_size,
    limits,
    outside,
    refusal,
    size_of,
    source_of,
    spelled,
    stream_handle,
    target_of,
    whole,
)
from ..values import Build, Image, Reason, Refused, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..values import BuildPlace, Module
    from . import Here, Request


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> None:
    """Return nothing: the CPU is a fact of the machine."""


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge a library by its level of CPUs."""
    level = cpu.CpuLevel(str(image.built_for))
    return Verdict.of(cpu.refusal(level, here.machine.cpu) or build.failure, _merit(build, level))


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> HostKernel:
    """Return a function of a library; raises Refused, DriverError."""

    entry = request.entry
    if entry.parameters is None:
        from ..declarations import parameters_of

        entry = entry._replace(parameters=parameters_of(request.sources, entry.symbol))
    return load(module.file, entry, str(request.machine.problem or ""))


def _merit(build: Build, level: cpu.CpuLevel) -> Reason:
    if level.name:
        return Reason("made-for-level", {"level": level.name})
    facts = {"name": build.name, "compiler": build.compiler}
    return Reason("made-there", facts) if build.name else Reason("no-gpu-needed")


# numpy's scalars by kind and size -> C's types; ctypes passes no complex number by value before Python 3.14
_SCALARS = {
    "b1": ctypes.c_bool, "i1": ctypes.c_int8, "i2": ctypes.c_int16, "i4": ctypes.c_int32, "i8": ctypes.c_int64,
    "u1": ctypes.c_uint8, "u2": ctypes.c_uint16, "u4": ctypes.c_uint32, "u8": ctypes.c_uint64,
    "f4": ctypes.c_float, "f8": ctypes.c_double,
}  # fmt: skip
_MOST = 32764  # bytes of all arguments, as with CUDA; C passes large structs on the stack
_OTHER_BACK_ENDS = __package__.rpartition(".")[0]


class HostMemory(Owned):
    """A copy of an array in the CPU's memory, so that code for a GPU runs here unchanged; see `Memory`."""

    __slots__ = ("_bytes", "_size")

    def __init__(self, size: int) -> None:
        self._size = size_of("the memory's size", size)
        try:
            self._bytes: ctypes.Array[ctypes.c_char] | None = (ctypes.c_char * max(self._size, 1))()
        except MemoryError:
            raise MemoryError(f"{self._size} bytes are more than there are") from None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._size

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


class _Passed(NamedTuple):
    """An argument in ctypes' form; `kept` must live as long as the call. An array has a `place`: address and size."""

    value: Any
    given: Given
    kept: Any = None
    place: tuple[int, int] | None = None


class HostKernel(Uploads):
    """A function of a library for the CPU. Safe to use from several threads if the function is.

    It gets the arguments and does the whole work: what else a launch has, from grid to cluster, is checked and not
    passed. `why` is the reason for which no GPU is used, "" if it is not known.
    """

    __slots__ = ("_entry", "_function", "_limits", "_why", "module", "name")
    backend = "cpu"
    device = "CPU"

    def __init__(self, entry: Entry, function: Any, why: str = "") -> None:
        self.name = entry.name
        self._entry = entry
        self._function = function
        self._why = why
        # by the arguments of a launch that fit: the positions and limits of numbers that may be too large
        self._limits: dict[tuple[Given, ...], list[tuple[int, tuple[int, int]]]] = {}
        function.restype = None

    def memory(self, size: int) -> HostMemory:
        """Allocate `size` bytes."""
        return HostMemory(size)

    def launch(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None,
        cooperative: bool = False, cluster: Any = None,
    ) -> None:  # fmt: skip
        """Call the function; it has finished when this returns.

        Arguments are as for `Kernel.launch`, with memory of the CPU: a `HostMemory`, or an array of NumPy or torch or
        another buffer, whose address is passed. An array that is read-only is refused: the function could write into
        it. Raises TypeError, and ValueError also for an array with gaps and for memory that was freed.
        """
        _check(grid, block, shared, stream, cluster)
        passed = self._passed(arguments)
        self._function(*[one.value for one in passed])

    def bind(
        self, grid: Any, block: Any, *arguments: Any, shared: int = 0, stream: Any = None,
        cooperative: bool = False, cluster: Any = None,
    ) -> Callable[[], None]:  # fmt: skip
        """Return a launch with these arguments that is repeated by calling it.

        Numbers are read now. A call raises ValueError if an array's memory was freed, moved or resized since.
        """
        _check(grid, block, shared, stream, cluster)
        bound = [
            one if one.place else one._replace(value=_copy(one.value)) for one in self._passed(arguments)
        ]

        def again() -> None:
            for number, (value, before) in enumerate(zip(arguments, bound)):
                if before.place and self._one_passed(number, value).place != before.place:
                    raise ValueError(f"argument {number}: the array was moved or resized after `bind`")
            self._function(*[one.value for one in bound])

        return again

    def _passed(self, arguments: tuple[Any, ...]) -> list[_Passed]:
        check_count(self._entry, len(arguments))
        passed = [self._one_passed(number, value) for number, value in enumerate(arguments)]
        self._judge(passed)
        size = sum(ctypes.sizeof(one.value) for one in passed)
        if size > _MOST:
            raise ValueError(
                f"the arguments have {size} bytes, and the most is {_MOST}: pass large structs by address"
            )
        return passed

    def _judge(self, passed: list[_Passed]) -> None:
        """Raise TypeError unless the arguments fit the kernel's parameters."""
        if self._entry.parameters is None:
            return
        signature = tuple(one.given for one in passed)
        found = self._limits.get(signature)
        if found is None:
            check(self._entry, signature)
            pairs = [(n, limits(self._entry.parameters[n], one.dtype)) for n, one in enumerate(signature)]
            found = self._limits[signature] = [(n, limit) for n, limit in pairs if limit is not None]
        for number, (least, most) in found:
            value = whole(passed[number].value)
            if not least <= value <= most:
                raise TypeError(outside(self._entry.parameters[number], number, value))

    def _one_passed(self, number: int, value: Any) -> _Passed:
        parameter = self._entry.parameters[number] if self._entry.parameters else Parameter("", 0)
        try:
            return self._argument(value, parameter)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"argument {number}: {error}") from error.__cause__

    def _argument(self, value: Any, parameter: Parameter) -> _Passed:
        if isinstance(value, HostMemory):
            content = value.content()
            address = ctypes.addressof(content)
            return _Passed(
                ctypes.c_void_p(address), given_array(HostMemory, value.dtype), content, (address, value.size)
            )
        described = given_value(value)
        if described is not None:
            return _Passed(_number(value, described, parameter), described)
        array = host_array(value)
        if array is None:
            raise TypeError(self._refusal(value, parameter))
        address = pointee_of(array)
        refuse_read_only(array, parameter)
        described = given_array(type(value), array.dtype)
        return _Passed(ctypes.c_void_p(address), described, array, (address, array.size))

    def _refusal(self, value: Any, parameter: Parameter) -> str:
        if not _on_device(value):
            return refusal(value, spelled(parameter, value))
        why = f" ({self._why})" if self._why else ""
        return (
            f"{type(value).__name__} is not in the CPU's memory, where kernel {self.name} runs{why}: pass an array of "
            "NumPy. The kernel set's explain() says why no GPU is used"
        )


def load(file: str, entry: Entry, why: str = "") -> HostKernel:
    """Open a library with local symbols, and return a function of it.

    Raises Refused for a file that cannot be opened, DriverError for a function that it does not have.
    """
    name = entry.symbol
    try:
        library = ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise Refused(Reason("not-opened", {"problem": str(error)})) from error
    if not _has_function(file, name):
        text = f'{file} has no function {name!r}: declare it extern "C"'
        raise DriverError("dlsym", 0, "NOT_FOUND", text)
    return HostKernel(entry, library[name], why)


def _has_function(file: str, name: str) -> bool:
    """Return whether a library itself has a function: dlsym also finds variables, and functions of other libraries."""
    try:
        return "\0" not in name and defines(file, [name], functions=True)
    except UnicodeEncodeError:
        return False
    except (NotReadable, OSError) as error:
        raise Refused(Reason("not-opened", {"problem": str(error)})) from error


def _check(grid: Any, block: Any, shared: Any, stream: Any, cluster: Any) -> None:
    launch_size(grid, block, shared, cluster)
    stream_handle(stream)


def _copy(value: Any) -> Any:
    return type(value).from_buffer_copy(value)


def _number(value: Any, described: Given, parameter: Parameter) -> Any:
    """Return a number, struct or pointer in ctypes' form.

    Raises TypeError for one that C does not have, ValueError for a pointer to text that must not change.
    """
    kind = type(value)
    if described.kind == "struct":
        parts = any(len(field) > 2 for field in kind._fields_)  # bit fields
        hint = spelled(parameter, "…") or (
            "it by address" if parts or isinstance(value, ctypes.Union) else ""
        )
        if hint:
            raise TypeError(f"ctypes does not pass {kind.__name__} by value as C does: pass {hint}")
    if not isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes._Pointer)):
        scalar = _SCALARS.get(described.dtype[1:])
        if scalar is None:
            raise TypeError(
                f"{kind.__name__} cannot be passed to a function for the CPU; "
                "write a ctypes.Structure for a complex number or a struct, and convert other numbers"
            )
        return scalar(value.item())
    if isinstance(value, (ctypes.c_char_p, ctypes.c_wchar_p)) and value and not reads_only(parameter):
        raise ValueError(
            f"{kind.__name__} points to text that is read-only, {written(parameter)}: pass "
            "ctypes.create_string_buffer(text)"
        )
    return value


def _on_device(value: Any) -> bool:
    kind = type(value)
    return not isinstance(value, type) and (
        hasattr(kind, "__cuda_array_interface__")
        or hasattr(kind, "__dlpack_device__")
        or "__cuda_array_interface__" in getattr(value, "__dict__", ())
        or kind.__module__.startswith(_OTHER_BACK_ENDS)
        or kind.__module__.partition(".")[0] == "pyopencl"
    )
