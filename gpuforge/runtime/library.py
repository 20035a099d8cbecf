"""Opens a shared library by dlopen and calls it without ever hanging; its absence is a reason, not an error."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .reason import Reason
from .tables import Table

Result = TypeVar("Result")
SECONDS = "GPUFORGE_DRIVER_TIMEOUT"  # how long a driver may take to start
LONGEST_SECONDS = 1e8  # three years; a thread cannot wait for an infinite time
DEFAULT_SECONDS = 60.0  # eight GPUs without the persistence daemon take some 20


def open_library(table: Table, files: tuple[str, ...] = ()) -> tuple[ctypes.CDLL, str] | Reason:
    """Open the first existing file of a table; return it with its name, or why there is none."""
    problems: dict[str, list[str]] = {}  # the loader's messages, each with its names
    for file in files or table.files:
        try:
            return ctypes.CDLL(file), file
        except OSError as error:
            problems.setdefault(str(error).replace(f"{file}: ", "", 1), []).append(file)
    problem = "; ".join(f"{', '.join(names)}: {words}" for words, names in problems.items())
    return Reason("no-library", {"what": table.what, "problem": problem})


def bind(library: ctypes.CDLL, file: str, table: Table) -> Reason | None:
    """Set the types of every function of the table; return why the library cannot be used, or None.

    An optional function that is absent becomes None on `library`.
    """
    missing = [name for name in table.required if not hasattr(library, name)]
    if missing:
        facts = {"library": file, "what": table.what, "problem": f"it lacks {', '.join(missing)}"}
        return Reason("not-the-library", facts)
    for name, types in {**table.required, **table.optional}.items():
        function = getattr(library, name, None)
        if function is None:
            setattr(library, name, None)
        else:
            function.argtypes = types
            function.restype = ctypes.c_int
    return None


class Attempt:
    """Runs a function in a separate thread, so that a library that hangs does not hang the program.

    A thread that waits in a hanging driver cannot be ended. It is a daemon, and stays behind; if it returns a result,
    the next `wait` has it. `files` are those that the function opens, if they are not the table's. `record` has its
    state: "thread", "outcome" (a list, empty until the function returned) and "waited". One of another `Attempt` may be
    given instead of a function.
    """

    def __init__(
        self,
        table: Table,
        function: Callable[[], Any],
        files: Sequence[str] = (),
        record: dict[str, Any] | None = None,
    ) -> None:
        self._table = table
        self._files = files or table.files
        if record is not None:
            self.record = record
            return
        thread = threading.Thread(target=self._run, args=(function,), name="gpuforge", daemon=True)
        self.record = {"thread": thread, "outcome": [], "waited": False}
        thread.start()

    def wait(self, seconds: float) -> Any:
        """Return the function's result, or a Reason if it takes longer; a second call does not wait again."""
        self.record["thread"].join(0 if self.record["waited"] else seconds)
        self.record["waited"] = True
        if not self.record["outcome"]:
            facts = {"what": self._table.what, "seconds": f"{seconds:g}", "advice": self._table.advice}
            return Reason("no-answer", facts)
        return self.record["outcome"][0]

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            found = function()
        except Exception as error:  # noqa: BLE001  a thread has nobody to raise to
            facts = {"library": ", ".join(self._files), "what": self._table.what, "problem": str(error)}
            found = Reason("not-the-library", facts)
        self.record["outcome"].append(found)


def patience(env: Any) -> float:
    """Return how many seconds a library may take to respond: GPUFORGE_DRIVER_TIMEOUT, else 60."""
    try:
        seconds = float(env.get(SECONDS, ""))
    except ValueError:
        return DEFAULT_SECONDS
    return DEFAULT_SECONDS if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_SECONDS)
