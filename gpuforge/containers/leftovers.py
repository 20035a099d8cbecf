"""Removes containers that a killed gpuforge left behind, which are labelled with its process."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from gpuforge import digest
from gpuforge.containers.container import Containers

OWNER = "gpuforge.owner"
MACHINE = "gpuforge.machine"
SECONDS = "gpuforge.seconds"
ACTION = "gpuforge.action"
MOMENT_S = 3600.0  # seconds, far more than an action without its own limit takes
_LATE_S = 900.0  # seconds that an owner may take to remove a container after its limit
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h: not inside a container


def labels(action: str = "", seconds: float = MOMENT_S) -> dict[str, str]:
    """Return the labels of a container of this process, which it lets run for at most `seconds`."""
    return {
        OWNER: f"{_namespace()} {os.getpid()} {_started(os.getpid())}",
        MACHINE: _machine(),
        SECONDS: str(math.ceil(seconds)),
        ACTION: action,
    }


def clear_leftovers(containers: Containers) -> int:
    """Remove the containers of gpuforge processes that have ended; return how many."""
    left = [each for each in containers.labelled(OWNER) if is_left(each.labels, each.age)]
    return sum(containers.remove(each.id) for each in left)


def is_left(found: Mapping[str, str], age: float) -> bool:
    """Return whether a container with these labels, made `age` seconds ago, is left over: its process has ended.

    A process is identified by its number, its start and its PID namespace, which excludes a new process with the same
    number and a gpuforge in another container. It has ended if its machine was restarted since. A process in another
    container, or on another machine of the same engine, is not visible: its container is left over after its time
    limit.
    """
    namespace, pid, started = [*found[OWNER].split(), "", "", ""][:3]
    if namespace == _namespace():
        return pid.isdigit() and _started(int(pid)) != started
    machine, limit = found.get(MACHINE, ""), found.get(SECONDS, "")
    boot, known, _ = namespace.partition(":")
    if known and machine and machine == _machine() and boot != _boot():
        return True
    return limit.isdigit() and age > int(limit) + _LATE_S


def _namespace() -> str:
    """Return an identifier of this boot and PID namespace, within which process numbers are unique."""
    try:
        return f"{_boot()}:{Path('/proc/self/ns/pid').readlink()}".replace(" ", "")
    except OSError:
        return "unknown"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _machine() -> str:
    """Return an identifier of the machine that survives a restart; "" in a container, which may share it."""
    try:
        if str(Path("/proc/self/ns/pid").readlink()) != _FIRST_NAMESPACE:
            return ""
        known = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    # machine-id(5): it must not be published unhashed; copies of one virtual machine at least differ by name.
    return digest.of_data(["gpuforge", known, os.uname().nodename])[:32] if known else ""


def _started(pid: int) -> str:
    """Return the start of a process in ticks since boot (proc(5), field 22); "" if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
