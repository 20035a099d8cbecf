"""Travels inside users' wheels: finds, explains, loads and launches their kernels. Standard library only.

`gpuforge build` copies this folder into the package as `<package>/_gpuforge`, next to the kernels:

    from ._gpuforge import KernelSet, KernelUnavailable

    kernels = KernelSet.shipped("default-kernels")      # reads nothing yet, never raises
    print(kernels.explain())                            # each image: used, fits or refused, and why
    try:
        kernel = kernels.function("saxpy", module="saxpy")
    except KernelUnavailable as error:                  # error.reasons
        ...                                             # compute on the CPU

Importing it touches no driver; the first `explain` or `function` does. `GPUFORGE_DISABLE_GPU=1` in the
environment refuses every GPU image, without opening the driver.
"""

from .context import Memory
from .errors import DriverError, KernelUnavailable
from .kernelset import Kernel, KernelSet
from .probe import Device, Probe, probe
from .resolve import Candidate, Image, resolve

__all__ = [
    "Candidate",
    "Device",
    "DriverError",
    "Image",
    "Kernel",
    "KernelSet",
    "KernelUnavailable",
    "Memory",
    "Probe",
    "probe",
    "resolve",
]
