"""Whether IREE's runtime has a device for an image."""

from __future__ import annotations

from collections.abc import Mapping

from ..image_kind import KINDS
from ..reason import Reason

_SOFTWARE = ("llvmpipe", "SwiftShader")  # Vulkan's devices that are the CPU, by the beginning of their names


def suitable(kind: str, found: Mapping[str, tuple[str, ...] | Reason], device: int) -> Reason:
    """Return why a device of IREE's runs an image of this kind, or why none does.

    `found` are the names of the devices for each kind. Code for the CPU runs there whatever the number of the device.
    """
    names = found.get(kind, Reason("not-looked-for", {"what": "IREE"}))
    if isinstance(names, Reason):
        return names
    driver = KINDS[kind].iree_driver
    number = 0 if KINDS[kind].built_for == "CPU" else device
    if not 0 <= number < len(names):
        facts = {"driver": driver, "device": device, "count": len(names)}
        return Reason("no-such-iree-device", facts)
    name = names[number]
    merit = "iree-software" if name.startswith(_SOFTWARE) else "iree"
    return Reason(merit, {"driver": driver, "device": name})
