"""Machine types other than this one, whose programs the kernel hands to an emulator (binfmt_misc, QEMU)."""

import platform
from pathlib import Path

REGISTERED = Path("/proc/sys/fs/binfmt_misc")
_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}  # Debian's and container engines' names
HINT = (
    "install one (Debian, Ubuntu: apt-get install qemu-user-static binfmt-support; Fedora: dnf install "
    "qemu-user-static; other systems: docker run --privileged --rm tonistiigi/binfmt --install all), or work on a "
    "machine of that type: `gpuforge matrix` names a runner for each cell"
)


def debian_name(machine: str) -> str:
    """Return the name of a machine type at Debian and container engines: "arm64"."""
    return _DEBIAN.get(machine, machine)


def runs(machine: str) -> bool:
    """Return whether this kernel runs programs of a machine type, also in other root file systems.

    For those the emulator must be registered with the flag F
    (https://docs.kernel.org/admin-guide/binfmt-misc.html), which fixes it when it is registered.
    """
    if machine == platform.machine():
        return True
    try:
        entry = (REGISTERED / f"qemu-{machine}").read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in entry if line.startswith("flags:")), "")
    return "enabled" in entry and "F" in flags.removeprefix("flags:")
