"""The facts about this machine, and the variables that switch parts of it off; finding them never raises or hangs."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Mapping
from ctypes import c_int, c_uint, c_void_p
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .driver import DRIVER, Attempt, Device, NoDriver, Table, bind, open_driver, open_library, patience
from .values import CpuLevel, Image, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cpu import Cpu


NVML = Table(
    "NVML",
    ("libnvidia-ml.so.1",),
    {"nvmlInit_v2": "", "nvmlSystemGetDriverVersion": "su", "nvmlShutdown": ""},
    {},
    DRIVER.advice,
)
NCCL = Table("NCCL", ("libnccl.so.2",), {"ncclGetVersion": "I"}, {}, "reinstall nvidia-nccl")
OPENCL_LOADER = Table(
    "OpenCL loader",
    ("libOpenCL.so.1", "libOpenCL.so"),
    {"clGetPlatformIDs": "uPU", "clGetPlatformInfo": "puzpZ"},
    {},
    "one of the implementations listed in /etc/OpenCL/vendors hangs",
)
DISABLE_GPU = "GPUFORGE_DISABLE_GPU"
OPENCL = "GPUFORGE_OPENCL"
KINDS = ("gpu", "accelerator", "cpu")  # of OpenCL's devices, in the order of preference


def gpu_disabled(env: Mapping[str, str]) -> bool:
    """Return whether the environment switches the GPU off: GPUFORGE_DISABLE_GPU set, and not to "0"."""
    return env.get(DISABLE_GPU, "") not in {"", "0"}


def switched_off(env: Mapping[str, str]) -> Reason:
    """Return the reason for `gpu_disabled`."""
    return Reason("switched-off", {"variable": DISABLE_GPU, "value": env.get(DISABLE_GPU, "")})


def opencl_off(env: Mapping[str, str]) -> Optional[Reason]:
    """Return why OpenCL must not be opened, None if it may be. An unknown value switches it off."""
    if gpu_disabled(env):
        return switched_off(env)
    value = env.get(OPENCL, "")
    if value == "0":
        return Reason("switched-off", {"variable": OPENCL, "value": value})
    if value and value not in KINDS:
        return Reason("bad-value", {"variable": OPENCL, "value": value, "expected": f"0, {', '.join(KINDS)}"})
    return None


def opencl_kind(env: Mapping[str, str]) -> str:
    """Return the only kind of OpenCL's devices that the environment allows, "" for all."""
    return env.get(OPENCL, "")


RELEASE_FILE = Path("/proc/driver/nvidia/version")
_PLATFORM_NAME = 0x0902  # CL_PLATFORM_NAME


class Probe(NamedTuple):
    """The facts that decide which image can run here.

    `driver` is the newest CUDA version that the driver supports, None without a usable one; `problem` then has the
    reason. `cpu` is set if code for a level of CPUs is judged. `found` has the results of back ends by their names:
    what they found, or why there is nothing; None or no entry means that they did not this_cpu.
    """

    driver: tuple[int, int] | None
    devices: tuple[Device, ...] = ()
    problem: Reason | None = None
    cpu: Cpu | None = None
    found: Mapping[str, Any] = {}


def probe(files: tuple[str, ...] = ()) -> Probe:
    """Look at this machine through its driver; anything missing or failing becomes `problem`."""
    driver = open_driver(files)
    if isinstance(driver, NoDriver):
        return Probe(None, problem=driver.reason)
    return Probe(driver.version, driver.devices, None if driver.devices else Reason("no-devices"))


def driver_release() -> str:
    """Return the driver's own release, "580.159.04", with which its compiler changes; "" if it is unknown."""
    try:
        found = re.search(r"\s(\d{3,}(?:\.\d+){1,2})\s", RELEASE_FILE.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def with_cpu(machine: Probe, images: Iterable[Image]) -> Probe:
    """Return the facts with those of the CPU, if one of the images is for a level of CPUs."""
    leveled = any(isinstance(image.built_for, CpuLevel) and image.built_for.name for image in images)
    if not leveled:
        return machine
    try:
        from .cpu import this_cpu
    except ImportError:  # only the user can have brought such an image
        return machine
    return machine._replace(cpu=this_cpu())


def libraries(env: Mapping[str, str]) -> dict[str, str | Reason]:
    """Return the libraries beside the driver, NVML, NCCL and OpenCL, with their versions, or why each is missing.

    OpenCL's loader is not opened if the environment switches it off.
    """
    queries: dict[str, tuple[Table, Callable[[Any], str]]] = {
        "NVML": (NVML, _nvml),
        "NCCL": (NCCL, _nccl),
        "OpenCL": (OPENCL_LOADER, _opencl),
    }
    off = opencl_off(env)
    if off is not None:
        del queries["OpenCL"]
    attempts = {name: Attempt(table, partial(_ask, table, ask)) for name, (table, ask) in queries.items()}
    found = {name: attempt.wait(patience(env)) for name, attempt in attempts.items()}
    return found if off is None else {**found, "OpenCL": _unopened(off)}


def _unopened(off: Reason) -> Reason:
    named = {key: off.facts[key] for key in ("variable", "value")}
    return Reason("loader-off", {"what": OPENCL_LOADER.what, **named})


def _ask(table: Table, ask: Callable[[Any], str]) -> str | Reason:
    opened = open_library(table)
    if isinstance(opened, Reason):
        return opened
    library, file = opened
    return bind(library, file, table) or ask(library)


def _nvml(library: Any) -> str:
    failed = library.nvmlInit_v2()
    if failed:
        return f"does not start (nvmlReturn_t {failed})"
    release = ctypes.create_string_buffer(80)
    failed = library.nvmlSystemGetDriverVersion(release, len(release))
    library.nvmlShutdown()
    return f"driver release {'unknown' if failed else release.value.decode(errors='replace')}"


def _nccl(library: Any) -> str:
    value = c_int()
    library.ncclGetVersion(ctypes.byref(value))
    return ".".join(map(str, nccl_version(value.value)))


def nccl_version(number: int) -> tuple[int, ...]:
    """Return the version of a number of ncclGetVersion: 22706 is 2.27.6; before 2.9 it was 2804 for 2.8.4."""
    scale = 10000 if number >= 10000 else 1000
    return number // scale, number % scale // 100, number % 100


def _opencl(library: Any) -> str:
    count = c_uint()
    platforms = (c_void_p * 16)()
    failed = library.clGetPlatformIDs(len(platforms), platforms, ctypes.byref(count))
    if failed or not count.value:
        return "no platform"
    names = []
    for platform in platforms[: min(count.value, len(platforms))]:
        name = ctypes.create_string_buffer(256)
        library.clGetPlatformInfo(platform, _PLATFORM_NAME, len(name), name, None)
        names.append(name.value.decode(errors="replace"))
    return ", ".join(names)
