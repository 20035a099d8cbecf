"""Describes numbers, structs and pointers of ctypes and NumPy as a kernel's parameters are compared with them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from .signature import Given

_KINDS = {
    **dict.fromkeys("bhilq", "i"),
    **dict.fromkeys("BHILQ", "u"),
    **dict.fromkeys("fdg", "f"),
    "?": "b",
    "c": "i",
    "u": "i",
}  # fmt: skip  of ctypes' `_type_`
_SWAPPED = "is not in the byte order of this machine"
_known: dict[type, Given] = {}  # by type: those that were used


def type_name(kind: type) -> str:
    """Return a type's name with its package, "numpy.ndarray"."""
    if issubclass(kind, (ctypes._SimpleCData, ctypes._Pointer, ctypes.Array)):
        return f"ctypes.{kind.__name__}"
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package in {"builtins", "__main__"} else f"{package}.{kind.__qualname__}"


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
    return Given("address", "", ctypes.sizeof(ctypes.c_void_p), type_name(kind))


def given_array(kind: type, dtype: str) -> Given:
    """Return an array of elements of a type, as NumPy writes it: "<f4"; "" for raw bytes."""
    return Given("array", dtype, ctypes.sizeof(ctypes.c_void_p), type_name(kind))


def _described(kind: Any, value: Any) -> Given | None:
    if kind.__module__ == "numpy" and hasattr(kind, "dtype") and not hasattr(kind, "ctypes"):
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
        is_address = kind._type_ in {"P", "z", "Z"}
        return (
            given_address(kind)
            if is_address
            else Given("scalar", _dtype(kind), ctypes.sizeof(kind), type_name(kind))
        )
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
