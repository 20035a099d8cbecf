"""A context for one device of OpenCL: its queue, its programs, and its errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from ...cache_key import CacheKey
from ...errors import DriverError

_lock = threading.Lock()
_contexts: dict[tuple[int, int], OpenClContext] = {}  # by process and device


class OpenClContext:
    """A context for one device, its queue, and the programs that were built for it."""

    def __init__(self, context: Any) -> None:
        import pyopencl as cl

        self.context = context
        self.device = context.devices[0]
        self.queue = cl.CommandQueue(context, self.device)
        self.launched = ("", "")  # name and source of the last kernel, whose fault shows in a later call
        self._lock = threading.Lock()
        self._programs: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The device's name."""
        return str(self.device.name.strip())

    def program(self, key: CacheKey, build: Callable[[CacheKey], Any]) -> Any:
        """Return the program of a key, built once for this context; errors of `build` are not remembered."""
        with self._lock:
            if key.digest not in self._programs:
                self._programs[key.digest] = build(key)
            return self._programs[key.digest]

    def queue_of(self, stream: Any) -> Any:
        """Return the queue of a launch or copy, None for the context's own; raises TypeError."""
        import pyopencl as cl

        if stream is not None and not isinstance(stream, cl.CommandQueue):
            raise TypeError(f"a stream of OpenCL is a pyopencl.CommandQueue, not {type(stream).__name__}")
        return self.queue if stream is None else stream

    def failure(self, call: str, error: Any, kernel: str = "", source: str = "") -> DriverError:
        """Return an error of pyopencl as a driver's error, with the kernel that it belongs to.

        By default, that is the last one that was launched.
        """
        import pyopencl as cl

        if not kernel:
            kernel, source = self.launched
        name = cl.status_code.to_string(error.code)
        call = error.routine or call
        details = getattr(error.what, "what", None)  # a record of pyopencl
        text = str(details() if callable(details) else error.what).strip() or "OpenCL gives no details"
        return DriverError(call, error.code, name, text, kernel=kernel, source=source, device=self.name)


def context_of(device: Any) -> OpenClContext:
    """Return the context of a device of pyopencl, made once in a process."""
    import pyopencl as cl

    with _lock:
        key = (os.getpid(), device.int_ptr)
        if key not in _contexts:
            _contexts[key] = OpenClContext(cl.Context([device]))
        return _contexts[key]
