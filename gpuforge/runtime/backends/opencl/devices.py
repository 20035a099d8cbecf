"""Finds the devices of OpenCL on this machine with pyopencl, and those that a set of sources may use."""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from ...driver import Attempt, Table, patience, reach, switched_off
from ...process import printable
from ...values import Reason

SWITCH = "GPUFORGE_OPENCL"
KINDS = ("gpu", "accelerator", "cpu")  # of devices, in the order of preference
_VENDORS = "/etc/OpenCL/vendors"  # or the folder in OCL_ICD_VENDORS
_LOADER = Table(
    "OpenCL loader", ("libOpenCL.so.1",), {}, {}, f"one of the implementations listed in {_VENDORS} hangs"
)
_EXAMPLE = "pip install pocl-binary-distribution, for the CPU"
_lock = threading.Lock()
_devices: dict[int, list[Any]] = {}  # by the process that opened them: in a fork they would wait for ever


class OpenClDevice(NamedTuple):
    """A device of OpenCL in pyopencl's list; GPUs come first. `driver` and `platform` identify its compiler."""

    name: str
    driver: str
    platform: str


class Needs(NamedTuple):
    """The needs of a set's sources: kinds of devices (empty: any), extensions, and the command to install pyopencl."""

    install: str
    kinds: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


def find(env: Mapping[str, str], needs: Needs) -> tuple[Any, ...] | Reason:
    """Return pyopencl's devices for some sources, GPUs first, or why there are none. Never raises, and never hangs.

    Neither pyopencl nor the loader is opened if the environment switches OpenCL off.
    """
    value = env.get(SWITCH, "")
    off = switched_off(env)
    if off:
        return off
    if value == "0":
        return Reason("switched-off", {"variable": SWITCH, "value": value})
    if value and value not in KINDS:
        return Reason("bad-value", {"variable": SWITCH, "value": value, "expected": f"0, {', '.join(KINDS)}"})
    if _devices and os.getpid() not in _devices:
        return Reason("forked")
    every = _devices.get(os.getpid()) or Attempt(_LOADER, partial(_look, needs.install)).wait(patience(env))
    return every if isinstance(every, Reason) else _suitable(every, env, needs)


def devices(env: Mapping[str, str], needs: Needs) -> tuple[OpenClDevice, ...] | Reason:
    """Return the descriptions of the devices that `find` finds, or why there are none."""
    found = find(env, needs)
    return found if isinstance(found, Reason) else tuple(map(described, found))


def described(device: Any) -> OpenClDevice:
    return OpenClDevice(name_of(device), device.driver_version, device.platform.version)


def name_of(device: Any) -> str:
    return printable(device.name.strip())


def _look(install: str) -> list[Any] | Reason:
    try:
        import pyopencl as cl
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "pyopencl":
            return Reason("not-installed", {"what": "pyopencl", "install": install})
        return Reason("not-the-library", {"library": "pyopencl", "what": "OpenCL", "problem": str(error)})
    _reach_implementations()
    every = []
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        platforms = []
    for platform in platforms:
        try:
            every += platform.get_devices()
        except cl.Error:  # this platform has none, or its driver does not start
            continue
    if not every:
        return Reason("no-opencl-devices", {"example": _EXAMPLE})
    every.sort(key=lambda device: (*KINDS, "").index(_kind(device)))
    with _lock:
        return _devices.setdefault(os.getpid(), every)


def _reach_implementations() -> None:
    """Read what the loader will open with Python's lock."""
    for file in glob.glob(os.path.join(os.environ.get("OCL_ICD_VENDORS") or _VENDORS, "*.icd")):
        with contextlib.suppress(OSError, ValueError), open(file, encoding="utf-8") as stream:
            reach([stream.read(4096).strip()])


def _kind(device: Any) -> str:
    import pyopencl as cl

    return next((kind for kind in KINDS if device.type & getattr(cl.device_type, kind.upper())), "")


def _suitable(every: list[Any], env: Mapping[str, str], needs: Needs) -> tuple[Any, ...] | Reason:
    """Return the devices that the user and the package allow, or why there are none."""
    allowed = env.get(SWITCH, "")
    found = [device for device in every if not allowed or _kind(device) == allowed]
    if not found:
        return Reason("opencl-not-allowed", {"variable": SWITCH, "value": allowed, "found": _names(every)})
    fitting = [device for device in found if not needs.kinds or _kind(device) in needs.kinds]
    if not fitting:
        return Reason("opencl-other-kind", {"kinds": " or ".join(needs.kinds), "found": _names(found)})
    able = [device for device in fitting if not _lacking(device, needs)]
    if able:
        return tuple(able)
    lacking = " and ".join(dict.fromkeys(name for device in fitting for name in _lacking(device, needs)))
    return Reason("opencl-lacks", {"lacking": lacking, "found": _names(fitting)})


def _lacking(device: Any, needs: Needs) -> list[str]:
    there = device.extensions.split()
    return [extension for extension in needs.extensions if extension not in there]


def _names(found: list[Any]) -> str:
    return ", ".join(dict.fromkeys(map(name_of, found)))
