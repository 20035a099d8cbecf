"""Finds the problem size from which a kernel is faster than the package's own code, measured once on a machine.

from ._gpuforge.crossover import Crossover

def sample(size):                       # the same work twice, ready to be called, timed and compared
    x = numpy.linspace(0, 1, size)
    return (lambda: native(x)), (lambda: on_device(kernel, x))

solve = Crossover("solve", sample, version="1.0", rtol=1e-6)
if len(x) >= solve.size(kernel, x):
    ...                                 # the kernel
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import cpu
from .backends import owner_of
from .cache import CacheKey, KernelCache
from .signature import host_array

SIZES = (1 << 8, 1 << 11, 1 << 14, 1 << 17, 1 << 20, 1 << 23)
_BUDGET = 1.0  # seconds; a size that would take longer than the rest is not measured
_REPEATS = 3
_OF_HOST = {1, 3, 11}  # DLDeviceType: kDLCPU, kDLCUDAHost, kDLROCMHost

Sample = Callable[[int], "tuple[Callable[[], object], Callable[[], object]]"]


class _NotReadError(Exception):
    """The stored bytes are not a measurement."""


class _DiffersError(Exception):
    """The kernel computes something else; the message says where."""


class Crossover:
    """The problem size from which a kernel is faster, for each device that is requested.

    `sample` returns the package's own code and the kernel's call for a problem of a size, in host memory; `resident`
    does so for a problem whose data lies on the device, where the package's own code has to copy it. Both calls return
    their results, arrays or numbers, and change none of their inputs: they are called several times. Results may differ
    by `atol` + `rtol` * |own|, as with numpy.isclose. A kernel whose results differ by more is never used, and a
    warning has the first difference.

    Both are measured at the first call of `size` on a machine. The outcome is kept in the kernel cache, like compiled
    code: `python -m PACKAGE._gpuforge cache ls` lists it, `cache clear` removes it. It is valid for a kernel's
    file, a device with its driver, this machine's CPU, the number of processors that the process may use, and one
    `version` of the package's own code.
    """

    def __init__(
        self,
        name: str,
        sample: Sample,
        *,
        version: str,
        rtol: float,
        atol: float = 0.0,
        resident: Sample | None = None,
        sizes: Sequence[int] = SIZES,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._samples = {"host": sample, "device": resident}
        self._version = version
        self._tolerance = rtol, atol
        self._sizes = tuple(sorted(sizes))
        self._env: Mapping[str, str] = os.environ if env is None else env
        self._lock = threading.RLock()
        self._found: dict[tuple[str, str, str], tuple[float, str]] = {}

    def size(self, kernel: Any, *arrays: Any) -> float:
        """Return the size from which `kernel` is faster on its device, infinite if it never is or computes wrongly.

        It counts where the `arrays` of the problem lie: with one on a device, it is that of `resident`, and 0 without
        `resident`. Exceptions of the samples and of the two calls are raised; nothing is kept then.
        """
        return self._outcome(kernel, arrays)[0]

    def problem(self, kernel: Any, *arrays: Any) -> str:
        """Return where the results of `kernel` differ, "" if they do not; arguments are as for `size`."""
        return self._outcome(kernel, arrays)[1]

    def _outcome(self, kernel: Any, arrays: Sequence[Any]) -> tuple[float, str]:
        place = "device" if any(map(_is_on_device, arrays)) else "host"
        sample = self._samples[place]
        if sample is None:
            host = self._outcome(kernel, ())
            return (math.inf if host[1] else 0), host[1]
        device: str = kernel.device
        what = device, place, _code(kernel)
        found = self._found.get(what)
        if found is not None:
            return found
        with self._lock:
            found = self._found[what] = self._look_up(*what, sample)
        if found[1]:
            text = f"{self.name} computes something else on {device}, which is not used for it: {found[1]}"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        return found

    def _look_up(self, device: str, place: str, code: str, sample: Sample) -> tuple[float, str]:
        key = self._key(device, place, code)
        cache = KernelCache.of_user(self._env)

        def measured() -> bytes:
            return self._measured(sample)

        try:
            return _read(cache.obtain(key, measured))
        except _NotReadError:
            cache.discard(key)
            return _read(cache.obtain(key, measured))

    def _key(self, device: str, place: str, code: str) -> CacheKey:
        what = json.dumps([self.name, self._version, self._sizes, self._tolerance, place, code])
        here = f"{cpu.fact('model name').strip() or os.uname().machine}, {len(os.sched_getaffinity(0))} processors"
        label = f"{self.name}: the size from which on the kernel is faster, with data on the {place}"
        return CacheKey.of(what.encode(), toolchain=f"measured on {here}", arch=device, label=label)

    def _measured(self, sample: Sample) -> bytes:
        try:
            times = list(self._times(sample))
        except _DiffersError as error:
            return json.dumps({"from": None, "differs": str(error)}).encode()
        return json.dumps({"from": _crossing(times), "seconds": times}).encode()

    def _times(self, sample: Sample) -> Iterator[tuple[int, float, float]]:
        """Yield (size, seconds of the package's own code, seconds of the kernel), the smallest size first."""
        end = time.perf_counter() + _BUDGET
        for size in self._sizes:
            own_call, kernel_call = sample(size)
            problem = _difference(own_call, kernel_call, *self._tolerance)
            if problem:
                raise _DiffersError(f"with {size} elements, {problem}")
            own, kernel = _best(own_call), _best(kernel_call)
            yield size, own, kernel
            growth = 8 * _REPEATS * (own + kernel)
            if time.perf_counter() + growth > end:
                return


def _difference(own: Callable[[], object], kernel: Callable[[], object], rtol: float, atol: float) -> str:
    """Return the first difference of two calls' results, "" for none.

    What a call has returned is overwritten before the next one, so that a kernel that writes nothing is noticed.
    """
    expected = _taken(own())
    _taken(kernel())
    found = _taken(kernel())
    if len(expected) != len(found):
        return f"the kernel returns {len(found)} numbers, and the package's own code {len(expected)}"
    for number, (right, value) in enumerate(zip(expected, found)):
        same = right == value or (right != right and value != value)  # noqa: PLR0124  both are no number
        if not same and not abs(value - right) <= atol + rtol * abs(right):
            return f"result {number} of the kernel is {value}, and that of the package's own code {right}"
    return ""


def _taken(result: Any) -> list[Any]:
    """Return the numbers of a result, which is overwritten if it is an array; raises TypeError for no result."""
    if isinstance(result, (tuple, list)):
        return [number for part in result for number in _taken(part)]
    if isinstance(result, (int, float, complex)):
        return [result]
    array = None if result is None else host_array(result)
    if array is None:
        raise TypeError(f"the calls of a sample return their results, arrays or numbers, not {result!r}")
    numpy = sys.modules.get("numpy")
    numbers: list[Any] = (numpy.asarray(result).ravel() if numpy else memoryview(result)).tolist()
    if array.writable and array.size and array.in_c_order:
        array.bytes()[:] = b"\xff" * array.size
    return numbers


def _code(kernel: Any) -> str:
    """Return the digest of the file that a kernel is from."""
    module = getattr(kernel, "module", None)
    return (module.sha256 or hashlib.sha256(module.read()).hexdigest()) if module else ""


def _is_on_device(value: Any) -> bool:
    kind = type(value)
    if kind.__module__.startswith(f"{__package__}.backends"):
        return not kind.__module__.endswith(".system")
    if hasattr(kind, "__dlpack_device__") and kind.__module__.partition(".")[0] != "numpy":
        return value.__dlpack_device__()[0] not in _OF_HOST
    return hasattr(value, "__cuda_array_interface__") or bool(owner_of(value))  # pyopencl's


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


def _read(payload: bytes) -> tuple[float, str]:
    """Return a stored outcome: the size, and the first difference; raises _NotReadError if it is not one."""
    try:
        data = json.loads(payload)
        found, differs = data["from"], data.get("differs", "")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _NotReadError from error
    if not isinstance(differs, str):
        raise _NotReadError
    if found is None:
        return math.inf, differs
    if type(found) is not int or found < 0:
        raise _NotReadError
    return found, ""
