"""Puts what was found on a machine, and what was decided for it, into lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .probe import Device, Probe
from .resolve import Image, resolve


def describe_machine(machine: Probe) -> Iterator[str]:
    """Yield the driver's version and each device, or the one reason why there is nothing to use."""
    if machine.driver is not None:
        yield f"driver: supports CUDA up to {machine.driver[0]}.{machine.driver[1]}"
    if machine.problem:
        yield f"GPU: {machine.problem}"
    for device in machine.devices:
        major, minor = device.capability
        yield f"GPU {device.ordinal}: {device.name}, compute capability {major}.{minor}"


def describe_module(images: Sequence[Image], machine: Probe, env: Mapping[str, str]) -> Iterator[str]:
    """Yield one line for each image and the CPU: used, fits (but a better one is used), refused; and why."""
    groups = _alike(machine.devices)
    for devices in groups or [[]]:
        if len(groups) > 1:
            yield f"on GPU {', '.join(str(device.ordinal) for device in devices)}:"
        candidates = resolve(images, machine, env, device=devices[0].ordinal if devices else 0)
        width = max(len(candidate.label) for candidate in candidates)
        for rank, candidate in enumerate(candidates):
            verdict = ("fits" if rank else "used") if candidate.accepted else "refused"
            yield f"{verdict:<7}  {candidate.label:<{width}}  {candidate.reason}"


def _alike(devices: Sequence[Device]) -> list[list[Device]]:
    """Group devices of the same compute capability: the same image serves them."""
    groups: dict[tuple[int, int], list[Device]] = {}
    for device in devices:
        groups.setdefault(device.capability, []).append(device)
    return list(groups.values())
