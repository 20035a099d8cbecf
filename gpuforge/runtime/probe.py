"""What this machine has: the driver, its version and its devices. Asking never raises."""

from __future__ import annotations

from dataclasses import dataclass

from .driver import LIBRARY, NoDriver, open_driver
from .errors import DriverError


@dataclass(frozen=True)
class Device:
    """One GPU as the driver numbers it; `capability` is its compute capability, (9, 0) for an H200."""

    ordinal: int
    name: str
    capability: tuple[int, int]


@dataclass(frozen=True)
class Probe:
    """The facts that decide which image can run here.

    `driver` is the newest CUDA version that the driver supports, None without a usable one; `problem` then
    says why.
    """

    driver: tuple[int, int] | None
    devices: tuple[Device, ...] = ()
    problem: str = ""


def probe(library: str = LIBRARY) -> Probe:
    """Look at this machine through its driver; whatever is missing or fails becomes `problem`."""
    driver = open_driver(library)
    if isinstance(driver, NoDriver):
        return Probe(None, problem=driver.reason)
    try:
        devices = tuple(
            Device(ordinal, driver.device_name(ordinal), driver.device_capability(ordinal))
            for ordinal in range(driver.device_count())
        )
        return Probe(driver.version(), devices, "" if devices else "the driver sees no GPU")
    except DriverError as error:
        return Probe(None, problem=str(error))
