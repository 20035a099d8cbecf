"""Libraries that a package uses where they are: opened by name, with their version checked before their functions.

from ._gpuforge.optional import OptionalLibrary

transfers = OptionalLibrary(
    "NCCL", ["libnccl.so.2"], {"ncclAllReduce": "ppziipp"},
    version="ncclGetVersion", decode=nccl_version, needed=(2, 18), install="pip install nvidia-nccl-cu13",
)
if transfers.problem() is None:
    transfers.load().ncclAllReduce(...)

What a package declares when it is imported is a line of `python -m PACKAGE._gpuforge explain`, too.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from .driver import TYPES, Attempt, Table, bind, open_library, patience
from .process import KernelUnavailable
from .values import Reason

__all__ = ["DECLARED", "OptionalLibrary", "nccl_version"]
DECLARED: dict[str, OptionalLibrary] = {}  # by name: those of this package


class _Absent(Reason):
    """Why a library cannot be used, with what to do."""

    def __str__(self) -> str:
        return "; ".join(filter(None, (super().__str__(), str(self.facts["install"]))))


class OptionalLibrary:
    """A shared library and its functions, each with the types of its arguments as letters.

    p: pointer, i: int, u: unsigned, z: size_t, q: uint64, s: char *; a capital letter is a pointer to that type. All
    functions return int. `version` is a function that writes an int, which `decode` turns into a tuple; older than
    `needed` is refused before any other function is looked up. `optional` functions are None if they are absent.
    `install` is what to do without the library. It is opened at its first use; a failure is not remembered.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[str],
        functions: Mapping[str, str],
        *,
        version: str = "",
        decode: Callable[[int], tuple[int, ...]] = lambda number: (number,),
        needed: tuple[int, ...] = (),
        optional: Mapping[str, str] | None = None,
        install: str = "",
    ) -> None:
        if needed and not version:
            raise ValueError(f"{name}: `needed` is compared with what the function `version` returns")
        for function, letters in {**functions, **(optional or {})}.items():
            if not set(letters) <= set(TYPES):
                raise ValueError(
                    f"{name}: {function} has the types {letters!r}, of which the letters are {' '.join(TYPES)}"
                )
        self.name = name
        self._table = Table(name, tuple(files), dict(functions), dict(optional or {}), install)
        self._version, self._decode, self._needed = version, decode, needed
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None
        DECLARED[name] = self

    def load(self) -> Any:
        """Return the library, with its functions as attributes; raises KernelUnavailable with the reason."""
        found = self._look()
        if isinstance(found, Reason):
            raise KernelUnavailable([str(found)])
        return found[0]

    def problem(self) -> Optional[Reason]:
        """Return why the library cannot be used, None if it can."""
        found = self._look()
        return found if isinstance(found, Reason) else None

    def state(self) -> Union[str, Reason]:
        """Return its version and its file, or why it cannot be used, for `explain`."""
        found = self._look()
        return found if isinstance(found, Reason) else found[1]

    def _look(self) -> Union[tuple[Any, str], Reason]:
        with self._lock:
            if self._opened is None:
                found = Attempt(self._table, self._open).wait(patience(os.environ))
                if isinstance(found, Reason):
                    return _Absent(found.kind, {**found.facts, "install": self._table.advice})
                self._opened = found
            return self._opened

    def _open(self) -> Union[tuple[Any, str], Reason]:
        opened = open_library(self._table)
        if isinstance(opened, Reason):
            return opened
        library, file = opened
        text = file
        if self._version:
            problem = bind(library, file, self._table._replace(required={self._version: "I"}, optional={}))
            if problem is not None:
                return problem
            number = ctypes.c_int()
            failed = getattr(library, self._version)(ctypes.byref(number))
            if failed:
                facts = {"library": file, "what": self.name, "problem": f"{self._version} failed ({failed})"}
                return Reason("not-the-library", facts)
            found = self._decode(number.value)
            if found < self._needed:
                facts = {
                    "library": file,
                    "what": self.name,
                    "found": _text(found),
                    "needed": _text(self._needed),
                }
                return Reason("library-too-old", facts)
            text = f"{_text(found)} ({file})"
        return bind(library, file, self._table) or (library, text)


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def nccl_version(number: int) -> tuple[int, ...]:
    """Return the version of a number of ncclGetVersion: 22706 is 2.27.6; before 2.9 it was 2804 for 2.8.4."""
    scale = 10000 if number >= 10000 else 1000
    return number // scale, number % scale // 100, number % 100
