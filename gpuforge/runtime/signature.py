"""The kernels of a module, by name and by type, and what callers pass for their parameters, for all back ends.

Types are C++'s, "const float *", from a kernel's mangled name. Those of a kernel with `extern "C"` are "": only the
number and sizes of its arguments can be judged.
"""

from __future__ import annotations

import ctypes
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_int, c_int64, c_uint8, c_uint64, c_void_p
from typing import Any, NamedTuple, Optional, TypeVar

POINTER = 8  # bytes
QUALIFIER = r"\s*\b(?:const|volatile|__restrict__|__restrict|restrict)\b\s*"


class Parameter(NamedTuple):
    """A kernel's parameter: its type, "" if it is not known, and its size in bytes, 0 if that is not known."""

    type: str
    size: int

    @property
    def label(self) -> str:
        return self.type or (f"{self.size} byte{'' if self.size == 1 else 's'}" if self.size else "any type")


class Entry(NamedTuple):
    """A kernel: its `symbol` in the image, its `name` with namespaces and template arguments, and its parameters.

    `parameters` is None if nothing is known about them.
    """

    symbol: str
    name: str
    parameters: Optional[tuple[Parameter, ...]]

    @property
    def signature(self) -> str:
        """Its name and its parameters' types: "ns::scale(float *, unsigned long)"."""
        if self.parameters is None:
            return self.name
        return f"{self.name}({', '.join(parameter.label for parameter in self.parameters)})"


class Given(NamedTuple):
    """An argument of a call.

    `kind` is "array", "scalar", "struct" (bytes that are passed by value), or "address", which fits every pointer.
    `dtype` is NumPy's name of the type of a number or of an array's elements, "<f4", "" if it has none; bfloat16 is
    "<V2". `type` is the Python type's name, "torch.Tensor".
    """

    kind: str
    dtype: str
    size: int
    type: str


def plain_entry(name: str) -> Entry:
    return Entry(name, name, None)


def matching(kernels: Iterable[Entry], given: str) -> tuple[Entry, ...]:
    """Return the kernels that a name may mean: none, one, or several that it is ambiguous between.

    A name is a symbol, a signature, or a name with or without namespaces and template arguments. The first of these
    that any kernel has counts: `scale` is the global function where there is a `ns::scale`, too.
    """
    if not isinstance(given, str) or "\0" in given:
        raise TypeError(f"a kernel's name is a str without NUL, not {_shown(given)}")
    listed, name = list(kernels), _normal(given)
    spelled = [(entry, _all_spellings(entry)) for entry in listed]
    for rank in range(5):
        found = {entry.symbol: entry for entry, spellings in spelled if name in spellings[rank]}
        if found:
            return tuple(found.values())
    return ()


def _all_spellings(entry: Entry) -> tuple[Sequence[str], ...]:
    symbol, signature, name = map(_normal, (entry.symbol, entry.signature, entry.name))
    shorter, types = _spellings(entry.name), signature[len(name) :]
    return [symbol], [signature], [name], [each + types for each in shorter], shorter


def _spellings(name: str) -> tuple[str, ...]:
    parts = _scopes(_normal(name))
    full = ["::".join(parts[start:]) for start in range(len(parts))]
    return (*full, *(each.partition("<")[0] for each in full if "<" in each and each.endswith(">")))


def _scopes(name: str) -> list[str]:
    """Split a name at each `::` that is not inside of template arguments or parentheses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(name):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif depth == 0 and name.startswith("::", at):
            parts.append(name[start:at])
            start = at + 2
    return [*parts, name[start:]]


def _normal(name: str) -> str:
    """Return a name without the spaces that separate no words."""
    return re.sub(r"(?<!\w) | (?!\w)", "", re.sub(r"\s+", " ", name))


def plain_name(name: str) -> str:
    return _spellings(name.partition("(")[0] or name)[-1]


def nearest(names: Iterable[str], word: str) -> list[str]:
    listed = list(names)
    if len(listed) < 2:
        return listed
    from difflib import SequenceMatcher

    def unlike(name: str) -> float:
        return -SequenceMatcher(None, word.lower(), plain_name(name).lower()).ratio()

    return sorted(listed, key=unlike)


def check(entry: Entry, given: Sequence[Given]) -> None:
    check_count(entry, len(given))
    for position, (parameter, one) in enumerate(zip(entry.parameters or (), given)):
        problem = misfit(parameter, position, one)
        if problem:
            raise TypeError(f"{problem}. The kernel is {entry.signature}")


def check_count(entry: Entry, count: int) -> None:
    expected = count if entry.parameters is None else len(entry.parameters)
    if count != expected:
        some = f"{expected} argument{'' if expected == 1 else 's'}"
        raise TypeError(f"{entry.signature} takes {some}, and {count} are given")


def misfit(parameter: Parameter, position: int, given: Given) -> str:
    """Return why an argument does not fit a parameter, with what to pass instead; "" if it fits."""
    problem = _refusal(parameter, given) if parameter.size else ""
    return f"argument {position}: {problem}" if problem else ""


def limits(parameter: Parameter, dtype: str) -> tuple[int, int] | None:
    """Return the least and the greatest value of an integer whose signedness is not the parameter's; None: all fit."""
    expected, kind = _NUMBERS.get(_bare(parameter.type), ""), dtype.lstrip("<|=")[:1]
    if expected[:1] not in {"i", "u"} or kind not in {"i", "u"} or expected[0] == kind:
        return None
    return 0, (1 << (8 * parameter.size - 1)) - 1


def outside(parameter: Parameter, position: int, value: object) -> str:
    return f"argument {position}: {value} does not fit the parameter's type, {parameter.type}"


def spelled(parameter: Parameter, value: object) -> str:
    """Return a Python number in the form in which it can be passed: "numpy.uint64(5)"; "" if the type is not known."""
    if _pointee(parameter.type) is not None and type(value) is int:
        return f"ctypes.c_void_p({value}) for an address, or pass an array"
    numpy = _NAMES.get(_NUMBERS.get(_bare(parameter.type), ""), "")
    return f"numpy.{numpy}({value})" if numpy else ""


# NumPy's types of C++'s numbers on 64-bit Linux: the kind and the bytes
_NUMBERS = {
    "bool": "b1", "char": "i1", "signed char": "i1", "unsigned char": "u1", "char8_t": "u1", "short": "i2",
    "unsigned short": "u2", "char16_t": "u2", "int": "i4", "unsigned int": "u4", "wchar_t": "i4", "char32_t": "u4",
    "long": "i8", "unsigned long": "u8", "long long": "i8", "unsigned long long": "u8", "__half": "f2",
    "__nv_bfloat16": "V2", "float": "f4", "double": "f8",
}  # fmt: skip
_NAMES = {
    **{f"{kind[0]}{size}": f"{kind}{8 * size}" for kind in ("int", "uint", "float") for size in (1, 2, 4, 8)},
    "b1": "bool_",
    "V2": "bfloat16",
    "c8": "complex64",
    "c16": "complex128",
}
_BYTES = {"void", "char", "unsigned char", "std::byte", "cuda::std::byte"}  # elements of any type
_VECTOR = re.compile(r"(u?)(char|short|int|long|longlong|float|double)([1-4])(?:_\d+a)?")
_COMPLEX = re.compile(r"(?:\w+::)*complex<(float|double)>")


def _bare(type_: str) -> str:
    return re.sub(QUALIFIER, " ", type_).strip()


def _pointee(type_: str) -> str | None:
    bare = _bare(type_)
    return bare[:-1].strip() if bare.endswith("*") else None


def _fitting(type_: str) -> tuple[str, ...]:
    """Return NumPy's types of the values of a C++ type, the usual one first; none if it is a type of the package."""
    if type_ in _NUMBERS:
        return (_NUMBERS[type_],)
    if type_ in {"__half2", "__half_raw"}:
        return ("f2",)
    if type_ in {"__nv_bfloat162", "__nv_bfloat16_raw"}:
        return ("V2",)
    vector, number = _VECTOR.fullmatch(type_), _COMPLEX.fullmatch(type_)
    if vector:
        base = vector[2].replace("longlong", "long long")
        element = _NUMBERS[f"unsigned {base}" if vector[1] else base]
        pairs = {"f42": "c8", "f82": "c16"}.get(element + vector[3])
        return (element, *([pairs] if pairs else []))
    if number:
        return ("c8", "f4") if number[1] == "float" else ("c16", "f8")
    return ()


def _refusal(parameter: Parameter, given: Given) -> str:
    element = _pointee(parameter.type)
    dtype = given.dtype.lstrip("<|=")
    if dtype.startswith(">"):
        return f"{_described(given)} is not in the byte order of this machine: convert it with .astype({dtype[1:]!r})"
    if element is not None:
        return _refusal_of_pointer(parameter, element, given, dtype)
    if not parameter.type or given.kind == "struct":
        return _refusal_of_size(parameter, given)
    expected = _fitting(_bare(parameter.type))
    if given.kind == "array":
        if parameter.type.endswith((")", "]")):  # a function or an array
            return _refusal_of_size(parameter, given)
        return (
            f"{_described(given)} is given, and the parameter is a value: {parameter.type}{_hint(expected)}"
        )
    if given.kind == "address":
        integer = not expected or expected[0][0] in "iu"
        return _refusal_of_size(parameter, given) if integer else _other(parameter, given, expected)
    return _refusal_of_number(parameter, given, dtype, expected)


def _refusal_of_pointer(parameter: Parameter, element: str, given: Given, dtype: str) -> str:
    if given.kind == "address":
        return _refusal_of_size(parameter, given)
    if given.kind != "array":
        return (
            f"{_described(given)} is given, and the parameter is a pointer, {parameter.type}: pass an array, or "
            "an address as ctypes.c_void_p"
        )
    expected = _fitting(element)
    if not dtype or not expected or element in _BYTES or dtype in expected:
        return ""
    kind, size = dtype[0], int(re.sub(r"\D", "", dtype) or 0)
    if kind == "V" and given.dtype[0] != "<" and size % int(expected[0][1:]) == 0:  # a struct, or raw bytes
        return ""
    target = next((each for each in expected if each[0] == kind), expected[0])
    same_bits = kind in "iub" and target[0] in "iub" and size == int(target[1:])
    parts = kind == "c" and target == f"f{size // 2}"
    torch = given.type.startswith("torch.")
    name = _NAMES[target].rstrip("_")
    spelling = f"torch.{name}" if torch else f"ml_dtypes.{name}" if name == "bfloat16" else repr(name)
    way = f".view({spelling})" if same_bits or parts else f"{'.to' if torch else '.astype'}({spelling})"
    return (
        f"{_described(given)} is given, and the parameter is {parameter.type}: pass an array of "
        f"{' or '.join(_NAMES[each].rstrip('_') for each in expected)}, as from {way}"
    )


def _refusal_of_number(parameter: Parameter, given: Given, dtype: str, expected: tuple[str, ...]) -> str:
    if not expected or not dtype or dtype in expected:
        return _refusal_of_size(parameter, given)
    kinds = {dtype[0], expected[0][0]}
    whole = kinds <= {"i", "u"} or (kinds == {"b", "u"} and dtype[0] == "b")
    raw = expected[0] == "V2" and dtype in {"u2", "i2"}  # bfloat16's bits
    if (whole or raw) and given.size == parameter.size:
        return ""
    return _other(parameter, given, expected)


def _refusal_of_size(parameter: Parameter, given: Given) -> str:
    if given.size == parameter.size:
        return ""
    some = "1 byte" if parameter.size == 1 else f"{parameter.size} bytes"
    known = f", {parameter.type}," if parameter.type else ""
    return f"{_described(given)} has {given.size} bytes, and the parameter{known} has {some}"


def _other(parameter: Parameter, given: Given, expected: tuple[str, ...]) -> str:
    return f"{_described(given)} is given, and the parameter is {parameter.type}{_hint(expected)}"


def _hint(expected: tuple[str, ...]) -> str:
    name = _NAMES.get(expected[0], "") if expected else ""
    if not name:
        return ""
    return ": pass a value of ml_dtypes.bfloat16" if name == "bfloat16" else f": pass numpy.{name}(…)"


def _described(given: Given) -> str:
    if given.kind == "array":
        dtype = given.dtype.lstrip("<|=>")
        name = _NAMES.get(dtype, given.dtype).rstrip("_") if dtype else "unknown type"
        return f"an array of {name} ({given.type})"
    return given.type


FREED = "the memory was freed, by the end of its `with` statement or by `free`"

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
    """Return why a value is neither a number nor an array; `spelled` is a Python number as the parameter's type."""
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
    if issubclass(kind, (ctypes._SimpleCData, ctypes._Pointer, ctypes.Array)):
        return f"ctypes.{kind.__name__}"
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package in {"builtins", "__main__"} else f"{package}.{kind.__qualname__}"


def is_scalar(kind: type) -> bool:
    return kind.__module__ == "numpy" and hasattr(kind, "dtype") and not hasattr(kind, "ctypes")


def given_value(value: Any) -> Given | None:
    """Return a value that is passed as it is, None for another; raises TypeError for a number that C does not have."""
    kind = type(value)
    found = _known.get(kind)
    if found is None:
        found = _given_of(kind, value)
        if found is not None:
            _known[kind] = found
    return found


def whole(value: Any) -> int:
    """Return a whole number of ctypes or NumPy, or a character's code."""
    number = value.value if isinstance(value, ctypes._SimpleCData) else value
    return ord(number) if isinstance(number, (bytes, str)) else int(number)


def given_address(kind: type) -> Given:
    return Given("address", "", POINTER, type_name(kind))


def given_array(kind: type, dtype: str) -> Given:
    return Given("array", dtype, POINTER, type_name(kind))


def _given_of(kind: Any, value: Any) -> Given | None:
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
    if issubclass(kind, ctypes._SimpleCData):
        if kind._type_ == "O":
            return "is a Python object, not a number of C"
        orders = [getattr(kind, name, None) for name in ("__ctype_le__", "__ctype_be__")]
        native, swapped = orders if _NATIVE == "<" else reversed(orders)  # the same for single bytes
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
    return f"{_NATIVE}{letter}{ctypes.sizeof(kind)}" if letter else ""


def three(dim: Any, what: str = "grid or block") -> tuple[int, int, int]:
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
            raise ValueError(f"{what} {_shown(dim)}: its axis {axis} is more than 2^31-1")
    x, y, z = numbers + [1] * (3 - len(numbers))
    return x, y, z


def launch_size(
    grid: Any, block: Any, shared: Any, cluster: Any = None
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    if cluster is not None:
        three(cluster, "cluster")
    return three(grid, "grid"), three(block, "block"), size_of("shared", shared)


def size_of(what: str, size: Any) -> int:
    number: int | None = _whole(size)
    if number is None:
        raise TypeError(f"{what} is a whole number of bytes, not {_shown(size)}")
    if number < 0:
        raise ValueError(f"{what} is a number of bytes, and {_shown(size)} is negative")
    if number > _MOST_BYTES:
        raise ValueError(f"{what} is more bytes than there can be: {_shown(size)}")
    return number


def _whole(number: Any) -> Any:
    if isinstance(number, bool):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no int of more than 4,300 digits
        return "a very large number"
    return text if len(text) <= 60 else f"{text[:50]}…"


def stream_handle(stream: Any) -> int:
    """Return the CUstream of None, a number, or another library's stream; raises TypeError, ValueError.

    https://nvidia.github.io/cuda-python/cuda-core/latest/interoperability.html is the protocol of `__cuda_stream__`.
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
    """Return the CUcontext that a caller gives, for "current" what a function returns, 0 for none."""
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
    number: int | None = _whole(device)
    if device is not None and (number is None or number < 0):
        raise TypeError(f"a device is a number from 0 on, not {_shown(device)}")
    return number


_REACHABLE = {1, 3, 11}  # DLDeviceType: kDLCPU, kDLCUDAHost, kDLROCMHost
_MOST_AXES = 64  # as in NumPy
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
    """Raise ValueError unless the elements fill one block of memory, in any order of the axes."""
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
    return DLTensor.from_address(_pointer_of(capsule, b"dltensor"))


def _writable_tensor_of(array: Any) -> tuple[object, DLTensor, bool]:
    """Return an array's capsule, the array in it, and whether it may be written; before DLPack 1.0 it may."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0), copy=False)
    except TypeError:  # its library is older
        capsule = array.__dlpack__()
    if not _is_valid(capsule, b"dltensor_versioned"):
        return capsule, tensor_of(capsule), True
    managed = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
    return capsule, managed.tensor, not managed.flags & (_READ_ONLY | _IS_COPIED)


class HostArray(NamedTuple):
    """An array in the CPU's memory, which `owner` keeps where it is; `dtype` is "<f4", "" for raw bytes."""

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
        kind, elements = type(self.value).__name__, ""
        if self.dtype[1:2] in _WORDS:
            elements = f" of {_WORDS[self.dtype[1]]}{8 * self.itemsize if self.dtype[1] != 'b' else ''}"
        return f"{kind}{elements} with shape {self.shape}" if elements or len(self.shape) > 1 else kind

    @property
    def in_c_order(self) -> bool:
        if self.strides is None or 0 in self.shape:
            return True
        step = self.itemsize
        for stride, count in zip(reversed(self.strides), reversed(self.shape)):
            if count != 1 and stride != step:
                return False
            step *= count
        return True

    def bytes(self) -> memoryview:
        return memoryview((ctypes.c_char * self.size).from_address(self.address)).cast("B")


def host_array(value: Any) -> HostArray | None:
    """Return an array in the CPU's memory, None for anything else; raises TypeError, ValueError."""
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
    if not dtype.isnative or (dtype.fields and dtype != dtype.newbyteorder("=")):  # subarrays have their own
        raise TypeError(_foreign(f"an array of {dtype}"))
    strides = None if plain.flags.c_contiguous else plain.strides
    return HostArray(
        value, plain, plain.__array_interface__["data"][0], plain.nbytes, dtype.itemsize, plain.flags.writeable,
        dtype.str, plain.shape, strides,
    )  # fmt: skip


def _of_buffer(value: Any, view: memoryview) -> HostArray:
    kind = type(value).__name__
    form = re.sub(r":[^:]*:", "", view.format)  # without the names of fields
    if set(form) & set("Ouw"):
        raise TypeError(f"{kind} has {_CONTENTS['O' if 'O' in form else 'U']}")
    if re.search(r"z|Z(?![fdg])", form):
        raise TypeError(f"{kind} has pointers to text of Python, which must not change: use ctypes.c_void_p")
    if set(form) & set(">!" if _NATIVE == "<" else "<"):
        raise TypeError(_foreign(kind))
    if form.lstrip("@=<>")[:1] in set("&XP") and not view.ndim:
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
    shape = tuple(tensor.shape[: tensor.ndim]) if 0 < tensor.ndim <= _MOST_AXES and tensor.shape else ()
    if len(shape) != tensor.ndim or min(shape, default=0) < 0 or tensor.device_type not in _REACHABLE:
        raise TypeError(f"{type(value).__name__} gives a description that no array in the CPU's memory has")
    strides = tuple(step * itemsize for step in tensor.strides[: tensor.ndim]) if tensor.strides else None
    writable = writable and type(value).__module__.partition(".")[0] not in _IMMUTABLE
    return HostArray(
        value, (value, capsule), (tensor.data or 0) + tensor.byte_offset, math.prod(shape) * itemsize, itemsize,
        writable, f"{_NATIVE}{letter}{itemsize}" if tensor.lanes == 1 else "", shape, strides,
    )  # fmt: skip


def _foreign(what: str) -> str:
    convert = "array.astype(array.dtype.newbyteorder('='))"
    return f"{what} is not in the byte order of this machine: convert it with {convert}"


_Owned = TypeVar("_Owned", bound="Owned")
_typed: dict[tuple[type, str], type] = {}  # classes of memory, by the type of what was uploaded


class Owned:
    """Memory that a `with` statement frees."""

    __slots__ = ()
    dtype = ""  # as NumPy writes it, "<f4", of what was uploaded
    free: Callable[[], None]

    def __enter__(self: _Owned) -> _Owned:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.free()
        except Exception:  # not in place of another one
            if kind is None:
                raise

    def __reduce__(self) -> Any:
        raise TypeError("memory cannot be copied or pickled: it has one owner, who frees it")


class Uploads:
    __slots__ = ()
    memory: Any

    def upload(self, source: Any) -> Any:
        """Return device memory with a copy of an array in C's order; raises TypeError, ValueError, DriverError.

        A kernel takes it for elements of the array's type alone; raw bytes, and what `memory` returns, for any.
        """
        array = source_of(source)
        memory = self.memory(array.size)
        try:
            memory.write(source)
        except BaseException:
            memory.free()
            raise
        key = kind, dtype = type(memory), array.dtype
        if key not in _typed:
            members = {"__slots__": (), "__module__": kind.__module__, "dtype": dtype}
            _typed[key] = type(kind.__name__, (kind,), members)
        memory.__class__ = _typed[key]
        return memory
