"""Containers that a killed gpuforge left behind: each says whose it is, and the next run takes them away."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuforge.containers import engine

OWNER = "gpuforge.owner"
ACTION = "gpuforge.action"


def labels(action: str = "") -> dict[str, str]:
    """Return the labels of a container of this process."""
    return {OWNER: f"{_namespace()} {os.getpid()} {_started(os.getpid())}", ACTION: action}


def clear_leftovers(client: Any) -> int:
    """Remove the containers of gpuforge processes of this machine that are no more; return how many.

    A process is known by its number, its start and the namespace that counts it, so that neither a new process
    of the same number nor a gpuforge in another container is taken for it.
    """
    removed = 0
    for container in client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
        namespace, pid, started = [*container.labels[OWNER].split(), "", "", ""][:3]
        if namespace == _namespace() and pid.isdigit() and _started(int(pid)) != started:
            with suppress(engine.DockerException):  # another gpuforge may be doing the same
                container.remove(force=True, v=True)
                removed += 1
    return removed


def _namespace() -> str:
    """Return what tells one machine's (or container's) process numbers from another's: boot and PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{Path('/proc/self/ns/pid').readlink()}".replace(" ", "")
    except OSError:
        return "unknown"


def _started(pid: int) -> str:
    """Return when a process started, in ticks since boot (proc(5), field 22); "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
