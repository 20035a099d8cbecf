"""Says why a value cannot be an argument of a kernel, and what to write instead; all back ends say the same."""

from __future__ import annotations

from typing import Any

FREED = "the memory was freed, by the end of its `with` statement or by `free`"
_SEQUENCES = (list, tuple, range, set, frozenset, dict)


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
    if isinstance(value, _SEQUENCES):
        return f"a {kind} is not an array: pass numpy.array(values, dtype='float32') or the like"
    if hasattr(type(value), "__array__"):
        return f"{kind} does not show its memory: pass numpy.ascontiguousarray(value), and keep that array"
    return f"a kernel takes numbers of ctypes or NumPy and arrays, not {kind}"


def _examples(value: Any) -> str:
    if isinstance(value, bool):
        return f"ctypes.c_bool({value}), numpy.bool_({value}) or the like"
    if isinstance(value, int):
        text = str(value) if -(1 << 63) <= value < 1 << 64 else "…"
        unsigned = f"numpy.uint64({text})" if value >= 0 else f"numpy.int64({text})"
        return f"ctypes.c_int({text}), {unsigned} or the like"
    if isinstance(value, float):
        return f"ctypes.c_float({value}), numpy.float32({value}) or the like"
    return f"numpy.complex64({value}), or a ctypes.Structure of two floats, or the like"
