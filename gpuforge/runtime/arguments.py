"""Kernel arguments: packs values of each type into memory as the C types that the kernel declares."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import byref, c_char, c_uint64, c_void_p
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from .arrays import MEMORY, ArrayReader, array_reader, host_memory, is_on_host
from .context import Place
from .driver import Driver
from .given import given_array, given_value, type_name, whole
from .refusal import refusal
from .replay import NODE
from .signature import Entry, Given, Parameter, check, limits, outside, spelled
from .signature import refusal as refuse

# CUlaunchConfig: grid, block, dynamic shared memory, stream; then the attributes, of which there are none.
_HEAD = "@7IP16x"


class Reader(NamedTuple):
    """How numbers and structs of one type are passed: `struct`'s code, and a function for the value to pack.

    Without a function, `struct` takes the argument itself. `given` describes the type.
    """

    code: str
    given: Given
    value: Callable[[Any], Any] | None = None


def reader(position: int, value: Any, spelled: str = "") -> Reader:
    """Return how numbers and structs of this one's type are passed; raises TypeError for anything else.

    `spelled` is a Python number in the form that fits the parameter.
    """
    if is_scalar(value) and value.dtype.name == "bfloat16":
        return Reader("0H2s", Given("scalar", "<V2", 2, type_name(type(value))), type(value).tobytes)
    try:
        given = given_value(value)
        if given is None:
            raise host_memory(value) if is_on_host(value) else TypeError(refusal(value, spelled))
        return _reader(given, value)
    except TypeError as error:
        raise TypeError(f"argument {position}: {error}") from None


def is_scalar(value: Any) -> bool:
    """Return whether a value is one number or struct of NumPy."""
    kind = type(value)
    return kind.__module__ == "numpy" and hasattr(kind, "dtype") and not hasattr(kind, "ctypes")


_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d", "c8": "0f8s", "c16": "0d16s",
}  # fmt: skip


def _reader(given: Given, value: Any) -> Reader:
    if given.kind == "struct":
        return Reader(f"0Q{given.size}s", given, bytes)
    if given.kind != "scalar":
        return Reader("P", given, _pointer)
    code = _CODES.get(given.dtype[1:])
    if code is None:  # GPUs have no long double
        raise TypeError(f"{given.type} is not a type that a kernel can have")
    if isinstance(value, ctypes._SimpleCData):
        is_character = isinstance(value.value, (bytes, str))
        return Reader(code, given, whole if is_character else attrgetter("value"))
    return Reader(code, given, type(value).tobytes if "s" in code else None)


def _pointer(value: Any) -> int:
    return ctypes.cast(value, ctypes.c_void_p).value or 0


def _limited(parameter: Parameter, position: int, least: int, most: int, read: Any) -> Callable[[Any], int]:
    """Return a function for numbers whose type has values that the parameter's does not have."""

    def value_of(number: Any) -> int:
        value = int(number) if read is None else int(read(number))
        if not least <= value <= most:
            raise TypeError(outside(parameter, position, value))
        return value

    return value_of


def _placeless(read: Callable[[Any], Any]) -> Callable[[Any, Place], Any]:
    return lambda value, _: read(value)


def _packer(head: str, codes: Sequence[tuple[str, str]]) -> tuple[Callable[..., None], int, list[int]]:
    """Return a function that packs arguments behind a head, the size of both, and the arguments' offsets."""
    code, offsets = head, []
    for alignment, part in codes:
        offsets.append(struct.calcsize(code + alignment))
        code += part
    packer = struct.Struct(code)
    return packer.pack_into, packer.size, offsets


_UNKNOWN = Parameter("", 0)


def _accept(parameter: Parameter, position: int, name: str, dtype: str) -> None:
    """Raise TypeError unless an array with elements of a type fits a parameter."""
    problem = refuse(parameter, position, Given("array", dtype, 8, name)) if parameter.size else ""
    if problem:
        raise TypeError(problem)


class Layout:
    """How the arguments of one launch signature are read and packed.

    `readers` has a function for each argument that is not packed as it is; that of an array returns its place, too.
    `arrays` are the positions of arrays, `memories` those of `Memory`, `pointers` those of bare addresses. `streams`
    has a function for the stream of an array by its position, and `sources` those that count: one for each library.
    `late` are the arrays that are read once the launch's stream is known.

    `direct` has the readers of the usual launch, which has arrays of one library, or `Memory` on the default stream:
    functions of an argument and a place; None if the arguments are others. `current` returns that library's stream.
    `floats` are the positions of floating-point numbers. `usuals` is what such launches use in each place, and `usual`
    what the last one did.
    """

    __slots__ = ("_offsets", "_size", "arrays", "current", "direct", "floats", "late", "memories", "node_offsets",
                 "node_size", "pack", "pack_node", "pointers", "pool", "readers", "sources", "streams", "usual",
                 "usuals")  # fmt: skip

    def __init__(self, arguments: Sequence[Any], entry: Entry, driver: Driver) -> None:
        """Raise TypeError for arguments that cannot be passed, or that do not fit the kernel's parameters."""
        self.readers: list[Callable[[Any], Any] | None] = []
        self.arrays: list[int] = []
        self.memories: list[int] = []
        self.pointers: list[int] = []
        self.streams: dict[int, Callable[[Any, Any], int]] = {}
        self.sources: list[tuple[int, Callable[[Any, Any], int]]] = []
        self.late: list[tuple[int, Callable[[Any, int], int]]] = []
        codes: list[tuple[str, str]] = []
        libraries: set[str] = set()
        given: list[Given] = []
        directs: list[Callable[[Any, Place], Any] | None] = []
        is_usual, current = True, None
        parameters = entry.parameters or ()
        for position, value in enumerate(arguments):
            parameter = parameters[position] if position < len(parameters) else _UNKNOWN
            array = array_reader(value, partial(_accept, parameter, position, type_name(type(value))), driver)
            if array is None:
                number = reader(position, value, spelled(parameter, value))
                given.append(number.given)
                alignment = number.code[:2] if number.code[0] == "0" else f"0{number.code}"
                part, read = number.code, number.value
                if read is _pointer:
                    self.pointers.append(position)
                bounds = limits(parameter, number.given.dtype)
                if bounds is not None:
                    read = _limited(parameter, position, *bounds, read)
                direct = None if read is None else _placeless(read)
            else:
                given.append(given_array(type(value), ""))
                alignment, part, read = "0P", "P", array.locate
                self._add_array(position, array, libraries)
                direct = array.address
                is_usual, current = is_usual and direct is not None, array.current
            directs.append(direct)
            codes.append((alignment, part))
            self.readers.append(read)
        check(entry, given)
        self.floats = [at for at, (_, part) in enumerate(codes) if part in {"e", "f", "d"}]
        one_library = len(self.sources) + bool(self.memories) == 1
        self.direct = directs if is_usual and one_library else None
        self.current = current
        self.pack, self._size, self._offsets = _packer(_HEAD, codes)
        self.pack_node, self.node_size, self.node_offsets = _packer(NODE, codes)
        self.pool: list[Frame] = []
        self.usual: Any = None
        self.usuals: dict[Place, Any] = {}

    def _add_array(self, position: int, array: ArrayReader, libraries: set[str]) -> None:
        self.arrays.append(position)
        if array.late is not None:
            self.late.append((position, array.late))
        if array.library == MEMORY:
            self.memories.append(position)
        if array.stream is None:
            return
        self.streams[position] = array.stream
        if (
            array.library == "interface" or array.library not in libraries
        ):  # others have one stream for all arrays
            self.sources.append((position, array.stream))
            libraries.add(array.library)

    def frame(self) -> Frame:
        """Return memory for a launch; put it back into `pool` when the driver has copied its content."""
        try:
            return self.pool.pop()
        except IndexError:
            return Frame(self._size, self._offsets)


class Frame:
    """The memory of one launch at a time, from `buffer` on: CUlaunchConfig, then the arguments."""

    __slots__ = ("_raw", "buffer", "config", "current", "current_at", "parameters")

    def __init__(self, size: int, offsets: Sequence[int]) -> None:
        self._raw = (c_uint64 * (size // 8 + 3))()
        start = -ctypes.addressof(self._raw) % 16  # a CUDA type is aligned to 16 bytes at most
        self.buffer = (c_char * size).from_buffer(self._raw, start)
        self.current = c_void_p()  # for the context that is current at a launch
        self.current_at = byref(self.current)
        base = ctypes.addressof(self.buffer)
        self.config = byref(self.buffer)
        self.parameters = byref((c_void_p * max(len(offsets), 1))(*(base + offset for offset in offsets)))

    def add_attributes(self, attributes: Any) -> None:
        """Point the configuration to an array of CUlaunchAttribute, for this launch."""
        c_void_p.from_buffer(self.buffer, _ATTRIBUTES).value = ctypes.addressof(attributes)
        ctypes.c_uint.from_buffer(self.buffer, _ATTRIBUTES + 8).value = len(attributes)


_ATTRIBUTES = 40  # the offset of the attributes in CUlaunchConfig
