"""What callers pass to a launch: numbers, structs, sizes, streams and contexts, checked alike by all back ends."""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable
from typing import Any

from .signature import POINTER, Given

FREED = "the memory was freed, by the end of its `with` statement or by `free`"
LEGACY = 1  # CU_STREAM_LEGACY: the default stream by its other name
DEFAULT = (0, LEGACY)
PER_THREAD = 2  # CU_STREAM_PER_THREAD: the default stream of the calling thread

_MOST = (1 << 31) - 1  # of a grid's first axis, with CUDA; no back end has more
_MOST_BYTES = (1 << 62) - 1
_KINDS = {
    **dict.fromkeys("bhilqcu", "i"),
    **dict.fromkeys("BHILQ", "u"),
    **dict.fromkeys("fdg", "f"),
    "?": "b",
}  # of ctypes' `_type_`
_SWAPPED = "is not in the byte order of this machine"
_known: dict[type, Given] = {}  # by type: those that were used


def refusal(value: Any, spelled: str = "") -> str:
    """Return why a value is neither a number nor an array that a kernel can get.

    `spelled` is a Python number in the form that fits the kernel's parameter, "" if its type is not known.
    """
    kind = type(value).__name__
    if isinstance(value, (bool, int, float, complex)):
        return f"a Python {kind} has no C type: write {spelled or _examples(value)}"
    if value is None:
        return "None has no C type: write ctypes.c_void_p(None) for a null pointer"
    if isinstance(value, type):
        return f"{value.__name__} is a type: pass a value of it"
    if isinstance(value, str):
        return "a str is not an array: pass its bytes, as bytearray(text, 'utf-8') or by upload"
    if isinstance(value, (list, tuple, range, set, frozenset, dict)):
        return f"a {kind} is not an array: pass numpy.array(values, dtype='float32') or the like"
    if hasattr(type(value), "__array__"):
        return f"{kind} does not show its memory: pass numpy.ascontiguousarray(value), and keep that array"
    return f"a kernel takes numbers of ctypes or NumPy and arrays, not {kind}"


def _examples(value: Any) -> str:
    if isinstance(value, bool):
        return f"ctypes.c_bool({value}), numpy.bool_({value}) or the like"
    if isinstance(value, int):
        text = str(value) if -(1 << 63) <= value < 1 << 64 else "…"
        return f"ctypes.c_int({text}), numpy.{'uint64' if value >= 0 else 'int64'}({text}) or the like"
    if isinstance(value, float):
        return f"ctypes.c_float({value}), numpy.float32({value}) or the like"
    return f"numpy.complex64({value}), or a ctypes.Structure of two floats, or the like"


def type_name(kind: type) -> str:
    """Return a type's name with its package, "numpy.ndarray"."""
    if issubclass(kind, (ctypes._SimpleCData, ctypes._Pointer, ctypes.Array)):
        return f"ctypes.{kind.__name__}"
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package in {"builtins", "__main__"} else f"{package}.{kind.__qualname__}"


def is_scalar(kind: type) -> bool:
    """Return whether a type is one of NumPy's numbers and structs."""
    return kind.__module__ == "numpy" and hasattr(kind, "dtype") and not hasattr(kind, "ctypes")


def given_value(value: Any) -> Given | None:
    """Return a value that is passed as it is, None for anything else; raises TypeError for a number C does not have."""
    kind = type(value)
    found = _known.get(kind)
    if found is None:
        found = _described(kind, value)
        if found is not None:
            _known[kind] = found
    return found


def whole(value: Any) -> int:
    """Return a whole number of ctypes or NumPy, or a character's code, as an int."""
    number = value.value if isinstance(value, ctypes._SimpleCData) else value
    return ord(number) if isinstance(number, (bytes, str)) else int(number)


def given_address(kind: type) -> Given:
    """Return an address, which fits any pointer."""
    return Given("address", "", POINTER, type_name(kind))


def given_array(kind: type, dtype: str) -> Given:
    """Return an array of elements of a type, as NumPy writes it: "<f4"; "" for raw bytes."""
    return Given("array", dtype, POINTER, type_name(kind))


def _described(kind: Any, value: Any) -> Given | None:
    if is_scalar(kind):
        dtype = value.dtype
        if dtype.kind not in "biufc" or not dtype.isnative:
            raise TypeError(
                f"{type_name(kind)} is not a type that a kernel can have; write a ctypes.Structure for a struct"
            )
        return Given("scalar", dtype.str, dtype.itemsize, type_name(kind))
    if not issubclass(kind, (ctypes._SimpleCData, ctypes._Pointer, ctypes.Structure, ctypes.Union)):
        return None
    problem = _problem_of(kind)
    if problem:
        raise TypeError(f"{kind.__name__} {problem}")
    if issubclass(kind, ctypes._SimpleCData):
        if kind._type_ in {"P", "z", "Z"}:
            return given_address(kind)
        return Given("scalar", _dtype(kind), ctypes.sizeof(kind), type_name(kind))
    if issubclass(kind, ctypes._Pointer):
        dtype = _dtype(kind._type_)
        return given_array(kind, dtype) if dtype else given_address(kind)
    return Given("struct", "", ctypes.sizeof(kind), type_name(kind))


def _problem_of(kind: Any) -> str:
    """Return why C has no values of a type of ctypes; "" if it has."""
    if issubclass(kind, ctypes._SimpleCData):
        if kind._type_ == "O":
            return "is a Python object, not a number of C"
        orders = [getattr(kind, name, None) for name in ("__ctype_le__", "__ctype_be__")]
        native, swapped = (
            orders if sys.byteorder == "little" else reversed(orders)
        )  # the same for single bytes
        is_swapped = swapped is not None and swapped is not native and issubclass(kind, swapped)
        return _SWAPPED if is_swapped else ""
    if issubclass(kind, ctypes.Array):
        return _problem_of(kind._type_)
    if not issubclass(kind, (ctypes.Structure, ctypes.Union)):
        return ""
    if hasattr(kind, "_swappedbytes_"):
        return _SWAPPED
    if not ctypes.sizeof(kind):
        return "has no fields"
    parts = [field[1] for base in kind.__mro__ for field in base.__dict__.get("_fields_", ())]
    return next((f"has a field that {problem}" for problem in map(_problem_of_field, parts) if problem), "")


def _problem_of_field(kind: Any) -> str:
    if issubclass(kind, (ctypes.c_char_p, ctypes.c_wchar_p)):
        return "points to text of Python, which must not change: use ctypes.c_void_p"
    return _problem_of_field(kind._type_) if issubclass(kind, ctypes.Array) else _problem_of(kind)


def _dtype(kind: Any) -> str:
    code = getattr(kind, "_type_", "")
    letter = _KINDS.get(code, "") if isinstance(code, str) else ""
    return f"{'<' if sys.byteorder == 'little' else '>'}{letter}{ctypes.sizeof(kind)}" if letter else ""


def three(dim: Any, what: str = "grid or block") -> tuple[int, int, int]:
    """Return a grid or block as three numbers.

    Raises TypeError for anything but one to three whole numbers, ValueError for a number below 1 or above 2^31-1.
    """
    if type(dim) is int and 0 < dim <= _MOST:
        return dim, 1, 1
    numbers = [_whole(number) for number in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if None in numbers or not 1 <= len(numbers) <= 3:
        raise TypeError(f"a {what} is one to three whole numbers, not {_shown(dim)}")
    for axis, number in zip("xyz", numbers):
        if number < 1:
            raise ValueError(
                f"{what} {_shown(dim)}: its axis {axis} is {_shown(number)}, and the least is 1; launch nothing if "
                "there is nothing to do"
            )
        if number > _MOST:
            raise ValueError(
                f"{what} {_shown(dim)}: its axis {axis} is more than 2^31-1, the most of any back end"
            )
    x, y, z = numbers + [1] * (3 - len(numbers))
    return x, y, z


def launch_size(
    grid: Any, block: Any, shared: Any, cluster: Any = None
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Return the size of a launch, with `shared` bytes of shared memory; raises TypeError, ValueError."""
    if cluster is not None:
        three(cluster, "cluster")
    return three(grid, "grid"), three(block, "block"), size_of("shared", shared)


def size_of(what: str, size: Any) -> int:
    """Return a number of bytes; raises TypeError unless it is a whole number, ValueError if it is negative or huge."""
    number: int | None = _whole(size)
    if number is None:
        raise TypeError(f"{what} is a whole number of bytes, not {_shown(size)}")
    if number < 0:
        raise ValueError(f"{what} is a number of bytes, and {_shown(size)} is negative")
    if number > _MOST_BYTES:
        raise ValueError(f"{what} is more bytes than there can be: {_shown(size)}")
    return number


def _whole(number: Any) -> Any:
    """Return a whole number of any type as an int, None for another value; True is not a number."""
    if isinstance(number, bool):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def _shown(value: Any) -> str:
    """Return a value's text, which must not be long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no int of more than 4,300 digits
        return "a very large number"
    return text if len(text) <= 60 else f"{text[:50]}…"


def stream_handle(stream: Any) -> int:
    """Return the CUstream of None (the default stream), a number, or another library's stream.

    `__cuda_stream__` is the protocol (https://nvidia.github.io/cuda-python/cuda-core/latest/interoperability.html);
    `ptr` is CuPy's attribute and `cuda_stream` torch's, of versions without it. Raises TypeError, ValueError.
    """
    if stream is None:
        return 0
    number = _whole(stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, number = protocol() if callable(protocol) else protocol
    elif number is None:
        handles = (getattr(stream, name, None) for name in ("ptr", "cuda_stream", "handle", "value"))
        number = next((handle for handle in handles if handle is not None), None)
    if number is None or isinstance(stream, bool):
        raise TypeError(
            f"a stream is a number or has __cuda_stream__, and {type(stream).__name__} is neither"
        )
    if int(number) < 0:
        raise ValueError(f"a stream is a CUstream, and {int(number)} is negative")
    return int(number)


def context_handle(context: Any, current: Callable[[], int] = lambda: 0) -> int:
    """Return the CUcontext that a caller gives, for "current" what a function returns, 0 for none.

    Raises TypeError for anything else.
    """
    if isinstance(context, str) and context == "current":
        return current()
    found = getattr(context, "handle", context)
    found = getattr(found, "value", found)  # ctypes
    try:
        return int(found or 0)
    except (TypeError, ValueError):
        raise TypeError(
            f'a context is "current", a CUcontext as a number, or an object with a handle, not {context!r}'
        ) from None


def device_number(device: Any) -> int | None:
    """Return the device that a caller gives, None for none; raises TypeError."""
    number: int | None = _whole(device)
    if device is not None and number is None:
        raise TypeError(f"a device is a number, not {_shown(device)}")
    return number
