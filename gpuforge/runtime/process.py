"""What is one in a process, however many packages bring a copy of this runtime, also copies of several versions.

The copies meet in a module that the first of them adds to `sys.modules`. Its attributes are the contract between all
versions, so they are objects of the standard library only, and none is ever changed or removed; new ones may be added:

    lock      a lock for the other attributes
    errors    the exception classes by name: the first copy's, so that `except` of one package catches those of all
    drivers   the file names of a driver: the attempt to start it, {"pid": of its process, "thread", "waited": whether a
              caller has waited for it, "outcome": a list, empty until it has ended, with either (handle, file) of the
              library or (kind, facts) of a reason}
    graphs    the graphs that all copies keep on devices, as a set of numbers: each copy makes none if there are 256
    contexts  (file names of a driver, device number): the handle of the primary context, which is retained only once
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Error = TypeVar("Error", bound=type[Exception])
    from collections.abc import Sequence


NAME = "_gpuforge_process"


def shared() -> Any:
    """Return the module in which all copies meet."""
    found = sys.modules.get(NAME)
    if found is None:
        made: Any = ModuleType(NAME, "Made by the first of the gpuforge runtimes in this process.")
        made.lock, made.errors, made.drivers, made.contexts = allocate_lock(), {}, {}, {}
        made.graphs = set()
        os.register_at_fork(
            after_in_child=lambda: setattr(made, "lock", allocate_lock())
        )  # its holder may be gone
        found = sys.modules.setdefault(NAME, made)
    return found


def one_per_process(own: Error) -> Error:
    """Return the process's class for an error, which is `own` if no other copy has defined it before."""
    meeting = shared()
    found: Error = meeting.errors.setdefault(own.__name__, own)
    if found is own:
        own.__module__ = NAME
        setattr(meeting, own.__name__, own)  # so that it can be pickled
    return found


def printable(text: str) -> str:
    """Return a text with what steers a terminal as escapes; it may have lines."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


@one_per_process
class KernelUnavailable(RuntimeError):  # noqa: N818  a state of the machine to fall back from, not a mistake
    """No GPU kernel is available here; `reasons` has one line for each place tried. The caller uses the CPU."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(map(printable, reasons))
        super().__init__("\n".join(self.reasons))


@one_per_process
class UnknownKernel(LookupError):  # noqa: N818  as KernelUnavailable
    """The wheel has no kernel, module or kernel set of a name, or several; the message lists those that it has.

    It is a mistake in a program, on every machine: there is nothing to fall back to.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@one_per_process
class DriverError(RuntimeError):
    """A call into a driver failed: its name (`call`), its `code` with `name` and `text`, and advice.

    `advice` is "" if there is none; `log` is the output of the driver's compiler. `kernel` is the kernel that failed;
    OpenCL and IREE have its `device`, too, and OpenCL the file that it was compiled from, `source`.
    """

    def __init__(
        self,
        call: str,
        code: int,
        name: str,
        text: str,
        log: str = "",
        advice: str = "",
        *,
        kernel: str = "",
        source: str = "",
        device: str = "",
    ) -> None:
        call, name, text, log, kernel, source, device = map(
            printable, (call, name, text, log, kernel, source, device)
        )
        place = f"kernel {kernel} of {source}" if source else f"kernel {kernel}"
        where = ", ".join([*([place] if kernel else []), *([f"on {device}"] if device else [])])
        lines = [f"{call} failed: {name} ({code}): {text}", where, log, advice and f"What to do: {advice}"]
        super().__init__("\n".join(line for line in lines if line))
        self.call = call
        self.code = code
        self.name = name
        self.text = text
        self.log = log
        self.advice = advice
        self.kernel = kernel
        self.source = source
        self.device = device
