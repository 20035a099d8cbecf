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
