"""Loads the functions of IREE's modules."""

from __future__ import annotations

import threading
from typing import Any

from ...errors import DriverError
from ...image_kind import KINDS
from ...index import Module, Refused
from ...reason import Reason
from .devices import opened, status_of
from .kernel import IreeKernel
from .memory import IreeDevice

_lock = threading.Lock()
_devices: dict[tuple[str, int], IreeDevice] = {}


def load(name: str, module: Module, kind: str, device: int, context: Any) -> IreeKernel:
    """Return a function of a module on a device that `devices_for` has found for this kind of image.

    Raises Refused for a function that cannot be launched like a kernel, and for a caller's own `context`, as IREE uses
    the primary one. Raises DriverError for errors of IREE's runtime.
    """
    on_cpu = KINDS[kind].built_for == "CPU"
    if context is not None and not on_cpu:
        raise Refused(Reason("own-context"))
    iree_device = _device(KINDS[kind].iree_driver, 0 if on_cpu else device)
    loaded, running = iree_device.module(module.sha256 or module.file, module.read())
    return IreeKernel(name, iree_device, loaded, running)


def _device(driver: str, number: int) -> IreeDevice:
    with _lock:
        iree_device = _devices.get((driver, number))
        if iree_device is None:
            found, info = opened(driver, number)
            name = str(info["name"])
            try:
                device = found.create_device(info["device_id"])
            except (RuntimeError, ValueError) as error:
                raise DriverError(f"opening {name} with IREE's {driver}", 0, *status_of(error)) from error
            iree_device = _devices[driver, number] = IreeDevice(driver, device, name)
        return iree_device
