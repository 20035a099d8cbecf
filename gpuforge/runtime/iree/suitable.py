"""Whether IREE's runtime has a device for an image."""

from __future__ import annotations

from collections.abc import Mapping

from ..reason import Reason

# What an image is made for -> the driver of IREE's runtime that runs it.
DRIVERS = {"iree-cuda": "cuda", "iree-vulkan": "vulkan", "iree-cpu": "local-task"}
_SOFTWARE = ("llvmpipe", "SwiftShader")  # Vulkan's devices that are the CPU, by the beginning of their names


def suitable(kind: str, found: Mapping[str, tuple[str, ...] | Reason], device: int) -> Reason:
    """Return why a device of IREE's runs an image of this kind, or why none does.

    `found` are the names of the devices for each kind. Code for the CPU runs there whatever the number of the device.
    """
    names = found.get(kind, Reason("not-looked-for", {"what": "IREE"}))
    if isinstance(names, Reason):
        return names
    number = 0 if kind == "iree-cpu" else device
    if not 0 <= number < len(names):
        facts = {"driver": DRIVERS[kind], "device": device, "count": len(names)}
        return Reason("no-such-iree-device", facts)
    name = names[number]
    merit = "iree-software" if kind == "iree-vulkan" and name.startswith(_SOFTWARE) else "iree"
    return Reason(merit, {"driver": DRIVERS[kind], "device": name})
