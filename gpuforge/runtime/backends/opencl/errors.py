"""OpenCL's errors as errors of a driver: the status, its meaning, what to do, and the kernel that it belongs to.

Statuses: https://registry.khronos.org/OpenCL/specs/3.0-unified/html/OpenCL_API.html#error_codes
"""

from __future__ import annotations

from typing import Any

from ...process import DriverError

_OWN_CONTEXT = (
    "pass arrays and queues of the kernel's own context: kernel.memory(size), or `context` of the look-up"
)
_SMALLER = "use smaller blocks, less local memory, or fewer arguments in private memory"
_CHECK_INDICES = "check the indices of the kernel; PoCL on the CPU shows such faults under valgrind"
_FULL = "free arrays on the device, or compute in parts"

# status: its meaning, what to do
_ABOUT = {
    -2: ("the device is not available", "end the programs that use it, or choose another device"),
    -4: ("the device has no memory left for it", _FULL),
    -5: ("the device has no resources left, or a kernel used memory that is not its own", _CHECK_INDICES),
    -6: ("the host has no memory left", "free memory of the process"),
    -11: ("the program was not compiled", "read the log of the driver's compiler"),
    -14: ("a kernel or copy that it waits for has failed", _CHECK_INDICES),
    -30: ("an argument of the call has no valid value", ""),
    -34: ("the parts belong to several contexts", _OWN_CONTEXT),
    -36: ("the queue cannot be used, as after a fault of a kernel", "look the kernel up in a new context"),
    -38: ("the memory is gone, or of another context", _OWN_CONTEXT),
    -42: ("the compiled code is not for this device and driver", "python -m PACKAGE._gpuforge cache clear"),
    -46: ("the program has no kernel of that name", "declare it __kernel, and check the name"),
    -52: ("an argument of the kernel is not set", ""),
    -54: ("the block does not fit the kernel on this device", _SMALLER),
    -55: ("the block has more items along an axis than the device takes", _SMALLER),
    -61: ("no buffer of this device can have that size", _FULL),
    -9999: ("a kernel used memory that is not its own", _CHECK_INDICES),  # of NVIDIA's driver
}
_OF_EARLIER_WORK = {-5, -14, -36, -9999}


def failure(
    error: Any, call: str, device: str, kernel: tuple[str, str] = ("", ""), *, details: str = ""
) -> DriverError:
    """Return an error of pyopencl as a driver's error; `kernel` is the name and the source of the one that failed."""
    import pyopencl as cl

    words = getattr(error.what, "what", "")  # of a record of pyopencl
    meaning, advice = _ABOUT.get(error.code, ("OpenCL gives no details", ""))
    text = str(words() if callable(words) else words).strip() or meaning
    name = cl.status_code.to_string(error.code)
    return DriverError(
        error.routine or call, error.code, name, text, details, advice,
        kernel=kernel[0], source=kernel[1], device=device,
    )  # fmt: skip


def is_of_earlier_work(error: Any) -> bool:
    """Return whether a copy failed for the fault of a kernel that was queued before."""
    return error.code in _OF_EARLIER_WORK
