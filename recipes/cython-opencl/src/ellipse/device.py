"""The same computation on an OpenCL device: which kernel, from which size on, and what stays on the device."""

import contextlib
import functools

import numpy

from . import _native
from .problems import TEXTS
from .version import __version__

try:
    from ._gpuforge import KernelSet, KernelUnavailable
    from ._gpuforge.crossover import Crossover
    from ._gpuforge.kernel_errors import Checked
except ImportError:  # built without gpuforge, or without OpenCL: there is the native loop alone
    KernelSet = None

SMALLEST = 256  # below this, OpenCL is not even looked for
_BLOCK = 64


@functools.cache
def _found(name):
    """Return a kernel, or why there is none: looked up once in a process."""
    if KernelSet is None:
        return "this build of ellipse has no OpenCL kernels"
    try:
        return KernelSet.shipped("anomaly").function(name)
    except KernelUnavailable as error:
        return "\n".join(error.reasons)


def kernel(name="solve"):
    """Return a kernel for this machine; raises RuntimeError with every reason why there is none."""
    found = _found(name)
    if isinstance(found, str):
        raise RuntimeError(f"OpenCL cannot be used: {found}")
    return found


def worthwhile(size):
    """Return whether a problem of this size is solved faster on the device; the first large problem measures it."""
    if size < SMALLEST or isinstance(_found("solve"), str):
        return False
    return size >= _crossover().size(kernel())


def solve(mean, eccentricity, anomaly):
    """Do what the native loop does on the device."""
    with contextlib.closing(Resident(mean, eccentricity)) as orbits:
        result = orbits.solve()
    anomaly[...] = result  # after all was read: `anomaly` may overlap the others


class Resident:
    """Orbits that stay on the device from call to call, until `close`."""

    def __init__(self, mean, eccentricity):
        self._kernel = kernel()
        self._memories = []
        self.count = len(mean)
        try:
            self._mean, self._eccentricity = (
                self._keep(self._kernel.upload(numpy.ascontiguousarray(x))) for x in (mean, eccentricity)
            )
            self._anomaly = self._keep(self._kernel.memory(8 * self.count))
        except BaseException:
            self.close()
            raise

    def advance(self, angle):
        """Add an angle to each mean anomaly; nothing is copied."""
        self._check_open()
        self._launch(kernel("advance"), numpy.float64(angle), self._mean)

    def solve(self):
        """Return the eccentric anomalies; raises ValueError for a bad element."""
        self._check_open()
        self._launch(Checked(self._kernel, TEXTS), self._mean, self._eccentricity, self._anomaly)
        return _read(self._anomaly, numpy.empty(self.count))

    def mean(self):
        """Return the mean anomalies."""
        self._check_open()
        return _read(self._mean, numpy.empty(self.count))

    def close(self):
        """Give the device's memory back; more than once is harmless."""
        while self._memories:
            self._memories.pop().free()

    def _keep(self, memory):
        self._memories.append(memory)
        return memory

    def _check_open(self):
        if not self._memories:
            raise ValueError("these orbits are closed")

    def _launch(self, function, *arguments):
        function.launch(max(1, -(-self.count // _BLOCK)), _BLOCK, numpy.uint64(self.count), *arguments)


def _read(memory, target):
    memory.read(target)
    return target


@functools.cache
def _crossover():
    return Crossover("ellipse", _sample, version=__version__, rtol=1e-12, atol=1e-12)


def _sample(size):
    mean, eccentricity = numpy.linspace(0, 100, size), numpy.linspace(0, 0.9, size)
    out = numpy.empty(size)

    def own():
        _native.solve(mean, eccentricity, out)
        return out

    def on_device():
        solve(mean, eccentricity, out)
        return out

    return own, on_device
