"""Reads the parameters of C functions in source text: a set's sources are in the wheel, and a C symbol has no types.

It looks for `void NAME(…)`. What it does not understand has an unknown type; a function that is declared in different
ways, or by a macro, is not known at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from .signature import POINTER, Parameter

_SUFFIXES = (".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hh", ".hxx"), (".cu", ".cuh")
_LARGEST = 1 << 20  # bytes of a file that is read
_NOISE = re.compile(  # comments, lines of the preprocessor, texts
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*|"(?:[^"\\\n]|\\.)*"', re.DOTALL | re.MULTILINE
)
_QUALIFIERS = re.compile(
    r"\b(?:__restrict__|__restrict|restrict|volatile|register|struct|__grid_constant__)\b|\bstd::"
)
_NAMES = {
    **dict.fromkeys(("size_t", "uint64_t", "uintptr_t"), "unsigned long"),
    **dict.fromkeys(("ptrdiff_t", "ssize_t", "int64_t", "intptr_t"), "long"),
    "uint32_t": "unsigned int",
    "int32_t": "int",
    "uint16_t": "unsigned short",
    "int16_t": "short",
    "uint8_t": "unsigned char",
    "int8_t": "signed char",
    "_Bool": "bool",
}
_SIZES = {"bool": 1, "char": 1, "short": 2, "int": 4, "long": 8, "long long": 8, "float": 4, "double": 8}
_WORDS = {
    "unsigned",
    "signed",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "bool",
    "void",
    "const",
    *_NAMES,
}


def parameters_of(folder: str, name: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of the function of a name in the sources of a folder, None if they are not known.

    Files for the CPU count before those for CUDA. The size of a type that is not C's own is 0.
    """
    for suffixes in _SUFFIXES:
        found = {each for text in _texts(folder, suffixes) if name in text for each in declared(text, name)}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def declared(text: str, name: str) -> Iterator[tuple[Parameter, ...]]:
    """Yield the parameters of each declaration and definition of a function without a result."""
    plain = _NOISE.sub(" ", text)
    for match in re.finditer(
        rf"\bvoid\b(?:[^;{{}}()=]|\([^()]*\))*?(?<![\w:.>]){re.escape(name)}\s*\(", plain
    ):
        parts, end = _split(plain, match.end())
        if re.match(r"\s*(?:noexcept\s*)?[;{]", plain[end:]):
            yield tuple(map(_parameter, parts))


def _texts(folder: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    for place, _, files in os.walk(folder):
        for file in sorted(files):
            if not file.endswith(suffixes):
                continue
            try:
                with open(os.path.join(place, file), "rb") as stream:
                    yield stream.read(_LARGEST).decode("utf-8", "replace")
            except OSError:
                continue


def _split(text: str, start: int) -> tuple[list[str], int]:
    """Return the parts of an argument list from `start` on, and where it ends."""
    parts, depth, begin = [], 0, start
    for at in range(start, len(text)):
        character = text[at]
        if character in "([{<":
            depth += 1
        elif depth and character in ")]}>":
            depth -= 1
        elif character in ",)" and not depth:
            parts.append(" ".join(text[begin:at].split()))
            begin = at + 1
            if character == ")":
                return ([] if parts in ([""], ["void"]) else parts), begin
    return parts, len(text)


def _parameter(text: str) -> Parameter:
    text = " ".join(_QUALIFIERS.sub(" ", text.partition("=")[0]).split())
    array = re.fullmatch(r"([^\[\]]*?)(\w*) ?(?:\[[^\]]*\])", text)
    if array:
        text = f"{array[1]}*"
    if not re.fullmatch(r"[\w:<>, ]+[*\w ]*", text):  # a reference, a function
        return Parameter("", POINTER if "&" in text or "(" in text else 0)
    head, star, tail = text.partition("*")
    if star:
        const = "const " if re.search(r"\bconst\b", head) else ""
        extra = "*" * tail.count("*")
        base = _base(re.sub(r"\bconst\b", " ", head).split())
        return Parameter(f"{const}{base} {extra}*", POINTER)
    words = [word for word in text.split() if word != "const"]
    if len(words) > 1 and words[-1] not in _WORDS:
        words.pop()  # the parameter's name
    base = _base(words)
    return Parameter(base, _SIZES.get(re.sub(r"^(?:un)?signed ", "", base), 0))


def _base(words: list[str]) -> str:
    """Return a type as C++ writes it: "unsigned long long" for "long long unsigned int"."""
    words = " ".join(_NAMES.get(word, word) for word in words).split()
    if not set(words) <= _WORDS:
        return " ".join(words)
    sign = "unsigned " if "unsigned" in words else "signed " if "signed" in words and "char" in words else ""
    kinds = [word for word in ("void", "bool", "float", "double", "char", "short") if word in words]
    return f"{sign}{kinds[-1] if kinds else ' '.join(['long'] * words.count('long')) or 'int'}"
