"""Finds the CUDA versions for which a command of a CMake file runs in a build by gpuforge."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

_VERSION = r"(?:\$\{)?\w*CUDA\w*_VERSION(?:_STRING)?\}?"  # CUDAToolkit_VERSION, CMAKE_CUDA_COMPILER_VERSION
_NUMBER = r"\d{1,4}(?:\.\d{1,4}){0,3}"
_OPPOSITES = {
    "VERSION_LESS": ("<", ">="),
    "VERSION_GREATER_EQUAL": (">=", "<"),
    "VERSION_LESS_EQUAL": ("<=", ">"),
    "VERSION_GREATER": (">", "<="),
}
_BY_GPUFORGE = frozenset({"CMAKE_CUDA_ARCHITECTURES", "ENV{CUDAARCHS}"})  # it defines them in each build
_OPERATORS = frozenset({"OR", "NOT", "EQUAL", "STREQUAL", "MATCHES", "LESS", "GREATER", "IN_LIST", "EXISTS"})
_ELSEWHERE = frozenset({"WIN32", "MSVC", "MINGW", "CYGWIN", "APPLE", "EMSCRIPTEN", "ANDROID", "IOS"})
_LONGEST = 3  # words after NOT
_MOST = 20  # conditions of the version that hold for one command
ALWAYS = SpecifierSet(prereleases=True)

Versions = SpecifierSet | None  # None: never, or under an unknown condition
_UNKNOWN: tuple[Versions, Versions] = (None, None)


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of an `if`, up to the one that is being read."""

    here: Versions  # the versions for which this branch is taken
    rest: Versions  # the versions for which no branch so far is taken

    @classmethod
    def of(cls, words: tuple[str, ...]) -> Branches:
        """Begin with the condition of `if`."""
        return cls(*_decided(words))

    def next(self, words: tuple[str, ...] = ()) -> Branches:
        """Go on to `elseif` with its condition, or to `else`."""
        taken, left = _decided(words) if words else (ALWAYS, None)
        return Branches(both(self.rest, taken), both(self.rest, left))


def is_elsewhere(words: tuple[str, ...]) -> bool:
    """Return whether a condition holds only on other systems than Linux."""
    return len(words) == 1 and words[0] in _ELSEWHERE


def both(one: Versions, other: Versions) -> Versions:
    """Return the versions for which both hold; None after too many conditions, too."""
    return None if one is None or other is None or len(one) > _MOST else one & other


def _decided(words: tuple[str, ...]) -> tuple[Versions, Versions]:
    """Return the versions for which a condition holds, and those for which it does not."""
    match words:
        case (name, comparison, number) if comparison in _OPPOSITES:
            if not (re.fullmatch(_VERSION, name) and re.fullmatch(_NUMBER, number)):
                return _UNKNOWN
            holds, fails = (
                SpecifierSet(f"{sign}{number}", prereleases=True) for sign in _OPPOSITES[comparison]
            )
            return holds, fails
        case ("NOT", *others) if len(others) <= _LONGEST and "AND" not in others:
            return _decided(tuple(others))[::-1]
        case (name,) if name in _ELSEWHERE:
            return None, ALWAYS
        case ("DEFINED", name):
            return (ALWAYS, None) if name in _BY_GPUFORGE else (None, ALWAYS)
    options = all(re.fullmatch(r"[A-Za-z_]\w*", word) and word not in _OPERATORS for word in words)
    return (ALWAYS, None) if options else _UNKNOWN
