"""Reads the parameters of an IREE module's function from the declaration that IREE's compiler stores with it.

`sync func @saxpy(%input0: f32, %input1: tensor<?xf32> {iree.abi.output = 0 : index}) -> (%output0: tensor<?xf32>)`
Reflection of functions: https://iree.dev/developers/general/developer-overview/ and the compiler's WrapEntryPoints.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...index import Refused
from ...reason import Reason

DECLARATION = "iree.abi.declaration"
LONGEST = 10_000  # characters of a declaration
SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_WHOLE = re.compile(r"sync func @(?P<name>[\w.$-]+)\((?P<inputs>.*)\) -> \((?P<outputs>.*)\)")
_ONE = re.compile(
    r"%\w+: (?:tensor<(?P<shape>(?:(?:\?|\d{1,15})x)*)(?P<element>\w+)>|(?P<number>\w+))"
    r"(?: \{iree\.abi\.output = (?P<output>\d{1,4}) : index\})?"
)


class Parameter(NamedTuple):
    """One parameter: a number, or a tensor with its `shape`, in which None is a size that the caller chooses.

    `element` is IREE's name of the type ("f32"). `output` is the number of the result that is written into the tensor,
    None if it is only read.
    """

    element: str
    shape: tuple[int | None, ...] | None
    output: int | None = None

    def sizes_of(self, size: int) -> tuple[int, ...] | None:
        """Return the sizes of a tensor of `size` bytes; None if they do not determine them."""
        assert self.shape is not None  # noqa: S101  a number has no sizes
        known = SIZES[self.element]
        for number in self.shape:
            known *= 1 if number is None else number
        unknown = self.shape.count(None)
        if unknown == 0:
            return tuple(n for n in self.shape if n is not None) if known == size else None
        if unknown > 1 or not known or size % known:
            return None
        return tuple(size // known if number is None else number for number in self.shape)

    def takes(self, sizes: tuple[int, ...]) -> bool:
        """Return whether a tensor of these sizes may be passed."""
        shape = self.shape or ()
        return len(shape) == len(sizes) and all(a is None or a == b for a, b in zip(shape, sizes))

    def __str__(self) -> str:
        """Return it in the form of IREE's compiler."""
        if self.shape is None:
            return self.element
        return f"tensor<{''.join('?x' if n is None else f'{n}x' for n in self.shape)}{self.element}>"


def read(name: str, declaration: str) -> tuple[Parameter, ...]:
    """Return a function's parameters; raises Refused for one that cannot be launched like a kernel.

    It can if it has only tensors and numbers, and writes each of its results into an argument.
    """
    whole = _WHOLE.fullmatch(declaration) if len(declaration) <= LONGEST else None
    if whole is None or whole["name"] != name:
        raise _refused(name, "it has no declaration of a synchronous function")
    parameters = tuple(_parameter(name, text) for text in _split(whole["inputs"]))
    results = [_parameter(name, text) for text in _split(whole["outputs"])]
    written = [parameter.output for parameter in parameters if parameter.output is not None]
    for number, result in enumerate(results):
        if number not in written:
            raise _refused(
                name,
                f"its result {number}, {result}, is written into no argument: give the argument "
                f"{{iree.abi.output = {number} : index}}",
            )
    return parameters


def _split(text: str) -> list[str]:
    return text.split(", ") if text else []


def _parameter(name: str, text: str) -> Parameter:
    found = _ONE.fullmatch(text)
    element = (found["element"] or found["number"]) if found else ""
    if found is None or element not in SIZES:
        raise _refused(name, f"{text} is neither a tensor nor a number of a known type")
    output = int(found["output"]) if found["output"] else None
    if found["element"] is None:
        return Parameter(element, None, output)
    shape = tuple(None if size == "?" else int(size) for size in found["shape"].split("x")[:-1])
    return Parameter(element, shape, output)


def _refused(name: str, problem: str) -> Refused:
    return Refused(Reason("not-a-kernel", {"kernel": name, "problem": problem}))
