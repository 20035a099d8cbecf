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

from .process import DriverError, KernelUnavailable, UnknownKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .backends.cuda.kernel import Kernel, Memory
    from .driver import Device, Probe, probe
    from .kernellibrary import KernelLibrary, KernelProgram
    from .kernelset import KernelSet
    from .values import Build, Candidate, Image, Origin, Reason

__all__ = [
    "Build",
    "Candidate",
    "Device",
    "DriverError",
    "Image",
    "Kernel",
    "KernelLibrary",
    "KernelProgram",
    "KernelSet",
    "KernelUnavailable",
    "Memory",
    "Origin",
    "Probe",
    "Reason",
    "UnknownKernel",
    "probe",
]
HOMES = {  # the modules of names that are imported at their first use
    "backends.cuda.kernel": ("Kernel", "Memory"),
    "driver": ("Device", "Probe", "probe"),
    "kernelset": ("KernelSet",),
    "kernellibrary": ("KernelLibrary", "KernelProgram"),
    "values": ("Build", "Candidate", "Image", "Origin", "Reason"),
}


def __getattr__(name: str) -> object:
    """Import these names at their first use: ctypes alone takes longer to import than all the rest.

    Raises ImportError for a name whose module is not in this wheel.
    """
    home = next((home for home, names in HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        found = getattr(import_module(f".{home}", __name__), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{__name__} has no {name} in this wheel: gpuforge copies the parts of the runtime that the wheel's "
            "kernels need or its Python files import"
        ) from error
    globals()[name] = found
    return found
