"""Kepler's equation for many orbits at once: a Cython loop, or an OpenCL device where that is faster."""

import numpy

from . import _native, device
from .version import __version__

__all__ = ["Orbits", "__version__", "eccentric_anomaly"]
_WAYS = ("auto", "native", "opencl")


def eccentric_anomaly(mean, eccentricity, out=None, *, use="auto"):
    """Return the eccentric anomaly of each orbit, in radians.

    `mean` and `eccentricity` are one-dimensional and equally long. The result is written into `out`, an array or
    memoryview of that many float64 with any stride, or into a new array. `out` may overlap the others: all are read
    before it is written. `use` is "native", "opencl", or "auto": what is faster on this machine for so many orbits.

    Raises ValueError for an element that is no ellipse and leaves `out` as it was; RuntimeError where `use` is
    "opencl" and there is none.
    """
    mean, eccentricity = _checked(mean, eccentricity)
    out = numpy.empty(len(mean)) if out is None else out
    target = _target(out, len(mean))
    if _on_device(use, len(mean)):
        device.solve(mean, eccentricity, target)
    else:
        apart = [x.copy() if numpy.may_share_memory(x, target) else x for x in (mean, eccentricity)]
        _native.solve(*apart, target)
    return out


class Orbits:
    """Orbits that are advanced and solved many times: on a device, their data stay there between the calls.

    Use it in a `with` statement, or call `close`. What the caller changes in its own arrays later is not seen.
    """

    def __init__(self, mean, eccentricity, *, use="auto"):
        mean, eccentricity = _checked(mean, eccentricity)
        on_device = _on_device(use, len(mean))
        self._held = device.Resident(mean, eccentricity) if on_device else _Here(mean, eccentricity)
        self.where = "opencl" if on_device else "native"

    def advance(self, angle):
        """Add an angle, in radians, to each mean anomaly."""
        self._held.advance(float(angle))

    def solve(self):
        """Return the eccentric anomalies as a new array; raises ValueError for an element that is no ellipse."""
        return self._held.solve()

    def mean(self):
        """Return the mean anomalies as a new array."""
        return self._held.mean()

    def close(self):
        """Give the device's memory back; more than once is harmless."""
        self._held.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Here:
    """The same without a device."""

    def __init__(self, mean, eccentricity):
        self._mean, self._eccentricity = mean.copy(), eccentricity.copy()

    def advance(self, angle):
        self._mean += angle

    def solve(self):
        out = numpy.empty(len(self._mean))
        _native.solve(self._mean, self._eccentricity, out)
        return out

    def mean(self):
        return self._mean.copy()

    def close(self):
        pass


def _on_device(use, size):
    if use not in _WAYS:
        raise ValueError(f"use={use!r}: expected one of {', '.join(_WAYS)}")
    if use == "opencl":
        device.kernel()  # says why there is none
    return use == "opencl" or (use == "auto" and device.worthwhile(size))


def _checked(mean, eccentricity):
    mean, eccentricity = (numpy.asarray(x, dtype=numpy.float64) for x in (mean, eccentricity))
    if mean.ndim != 1 or mean.shape != eccentricity.shape:
        raise ValueError(
            f"expected two arrays of one dimension and length, not {mean.shape} and {eccentricity.shape}"
        )
    return mean, eccentricity


def _target(out, count):
    """Return `out` as an array of NumPy that shares its memory."""
    target = numpy.asarray(memoryview(out))
    if target.dtype != numpy.float64 or target.shape != (count,):
        raise TypeError(
            f"out must hold {count} float64, not an array of {target.dtype} of shape {target.shape}"
        )
    if not target.flags.writeable:
        raise ValueError("out is read-only")
    if count > 1 and abs(target.strides[0]) < target.itemsize:
        raise ValueError("out overlaps itself: several of its elements share memory")
    return target
