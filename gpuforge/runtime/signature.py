"""The kernels of a module, by name and by type: finds the one that a caller means, and judges its arguments.

Types are C++'s, "const float *", from a kernel's mangled name. Those of a kernel with `extern "C"` are "": only the
number and sizes of its arguments can be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

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
    if not isinstance(given, str):
        raise TypeError(f"a kernel's name is a str, not {type(given).__name__}")
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
