"""Finds the problem size from which a kernel is faster than the package's own code, measured once on a machine.

from ._gpuforge.crossover import Crossover

def sample(size):                       # the same work twice, ready to be called and timed
    x = numpy.linspace(0, 1, size)
    return (lambda: native(x)), (lambda: on_device(kernel, x))

solve = Crossover("solve", sample, version="1.0")
if len(x) >= solve.size(kernel):
    ...                                 # the kernel
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import cpu
from .cache import CacheKey, KernelCache

SIZES = (1 << 8, 1 << 11, 1 << 14, 1 << 17, 1 << 20, 1 << 23)
_BUDGET = 1.0  # seconds; a size that would take longer than the rest is not measured
_REPEATS = 3

Sample = Callable[[int], "tuple[Callable[[], object], Callable[[], object]]"]


class _NotReadError(Exception):
    """The stored bytes are not a measurement."""


class Crossover:
    """The problem size from which a kernel is faster, for each device that is requested.

    `sample` returns the package's own code and the kernel's call for a problem of a size. Both are timed at the first
    call of `size` on a machine. The result is kept in the kernel cache, like compiled code: `python -m
    PACKAGE._gpuforge cache ls` lists it, `cache clear` removes it. It is valid for a device with its driver, this
    machine's CPU, the number of processors that the process may use, and one `version` of the code.
    """

    def __init__(
        self,
        name: str,
        sample: Sample,
        *,
        version: str,
        sizes: Sequence[int] = SIZES,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._sample = sample
        self._version = version
        self._sizes = tuple(sorted(sizes))
        self._env: Mapping[str, str] = os.environ if env is None else env
        self._lock = threading.RLock()
        self._found: dict[str, float] = {}

    def size(self, kernel: Any) -> float:
        """Return the size from which `kernel` is faster on its device, infinite if it never is.

        Exceptions of `sample` and of the two calls are raised; nothing is kept then.
        """
        device: str = kernel.device
        found = self._found.get(device)
        if found is not None:
            return found
        with self._lock:
            self._found[device] = self._look_up(device)
            return self._found[device]

    def _look_up(self, device: str) -> float:
        key = self._key(device)
        cache = KernelCache.of_user(self._env)
        try:
            return _read(cache.obtain(key, self._measured))
        except _NotReadError:
            cache.discard(key)
            return _read(cache.obtain(key, self._measured))

    def _key(self, device: str) -> CacheKey:
        what = json.dumps([self.name, self._version, self._sizes])
        here = f"{cpu.model()}, {len(os.sched_getaffinity(0))} processors"
        label = f"{self.name}: the size from which on the kernel is faster"
        return CacheKey.of(what.encode(), toolchain=f"measured on {here}", arch=device, label=label)

    def _measured(self) -> bytes:
        times = list(self._times())
        return json.dumps({"from": _crossing(times), "seconds": times}).encode()

    def _times(self) -> Iterator[tuple[int, float, float]]:
        """Yield (size, seconds of the package's own code, seconds of the kernel), the smallest size first."""
        end = time.perf_counter() + _BUDGET
        for size in self._sizes:
            own, kernel = (_best(call) for call in self._sample(size))
            yield size, own, kernel
            growth = 8 * _REPEATS * (own + kernel)
            if time.perf_counter() + growth > end:
                return


def _best(call: Callable[[], object]) -> float:
    """Return the shortest of a few times; the first call is not counted, as it may load code."""
    call()
    times = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def _crossing(times: Sequence[tuple[int, float, float]]) -> int | None:
    """Return the smallest size from which the kernel was faster at every size, None if it was not at the last."""
    found = None
    for size, own, kernel in reversed(times):
        if kernel >= own:
            break
        found = size
    return found


def _read(payload: bytes) -> float:
    """Return a stored measurement; raises _NotReadError if it is not one."""
    try:
        found = json.loads(payload)["from"]
    except (KeyError, TypeError, ValueError) as error:
        raise _NotReadError from error
    if found is None:
        return math.inf
    if type(found) is not int or found < 0:
        raise _NotReadError
    return found
