"""The variables by which users switch GPUs and OpenCL off, or allow only some kinds of OpenCL's devices."""

from collections.abc import Mapping
from typing import Optional

from .reason import Reason

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
