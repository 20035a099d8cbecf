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
_homes: dict[tuple[str, int], IreeDevice] = {}


def load(name: str, module: Module, kind: str, device: int, context: Any) -> IreeKernel:
    """Return a function of a module on a device that `devices_for` has found for this kind of image.

    Raises Refused for a function that cannot be launched like a kernel, and for a caller's own `context`, as IREE uses
    the primary one. Raises DriverError for errors of IREE's runtime.
    """
    on_cpu = KINDS[kind].built_for == "CPU"
    if context is not None and not on_cpu:
        raise Refused(Reason("own-context"))
    home = _home(KINDS[kind].iree_driver, 0 if on_cpu else device)
    loaded, running = home.module(module.sha256 or module.file, module.read())
    return IreeKernel(name, home, loaded, running)


def _home(driver: str, number: int) -> IreeDevice:
    with _lock:
        home = _homes.get((driver, number))
        if home is None:
            found, info = opened(driver, number)
            name = str(info["name"])
            try:
                device = found.create_device(info["device_id"])
            except (RuntimeError, ValueError) as error:
                raise DriverError(f"opening {name} with IREE's {driver}", 0, *status_of(error)) from error
            home = _homes[driver, number] = IreeDevice(driver, device, name)
        return home
