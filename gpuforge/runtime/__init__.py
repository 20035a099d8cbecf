"""Travels inside users' wheels: finds, explains, loads and launches their kernels, with the standard library only.

`gpuforge build` copies this folder into the package as `<package>/_gpuforge`, next to the kernels:

    from ._gpuforge import KernelSet, KernelUnavailable

    kernels = KernelSet.shipped("default-kernels")      # reads nothing yet, never raises
    print(kernels.explain())                            # each place looked in: used, fits or refused, and why
    try:
        kernel = kernels.function("saxpy")
    except KernelUnavailable as error:                  # error.reasons
        ...                                             # compute on the CPU

Importing it touches no driver; the first `explain` or `function` does. `GPUFORGE_DISABLE_GPU=1` in the
environment refuses every GPU image, without opening the driver.
"""

from .errors import DriverError, KernelUnavailable, UnknownKernel
from .kernellibrary import KernelLibrary
from .kernelset import KernelSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .image import Build, Candidate, Image, Origin
    from .kernel import BoundLaunch, Kernel
    from .machine import Device, Probe, probe
    from .memory import Memory
    from .reason import Reason

__all__ = [
    "BoundLaunch",
    "Build",
    "Candidate",
    "Device",
    "DriverError",
    "Image",
    "Kernel",
    "KernelLibrary",
    "KernelSet",
    "KernelUnavailable",
    "Memory",
    "Origin",
    "Probe",
    "Reason",
    "UnknownKernel",
    "probe",
]
_HOMES = {
    "image": ("Build", "Candidate", "Image", "Origin"),
    "kernel": ("BoundLaunch", "Kernel"),
    "memory": ("Memory",),
    "machine": ("Device", "Probe", "probe"),
    "reason": ("Reason",),
}


def __getattr__(name: str) -> object:
    """Import these names at their first use: ctypes alone takes longer to import than all the rest."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = found
    return found
