"""Finds the devices of IREE's drivers on this machine, driver by driver, so that a missing one hides no other."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ...driver import Attempt, Table, patience, reach, switched_off
from ...process import DriverError, printable
from ...values import KINDS, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...values import BuildPlace


IREE = Table(
    "IREE runtime", ("iree.runtime",), {}, {}, "one of its drivers hangs: `iree-run-module --list_devices`"
)
VARIABLE = "GPUFORGE_IREE"  # the drivers that may be used, such as "local-task,cuda"; "0" for none
_OPENED = {"cuda": ("libcuda.so.1", "libcuda.so"), "vulkan": ("libvulkan.so.1", "libvulkan.so")}  # by IREE
ADVICE = {
    "cuda": "IREE opens libcuda.so: where there is libcuda.so.1 alone, make a link of that name",
    "vulkan": "install a Vulkan loader and a driver, such as libvulkan1 and mesa-vulkan-drivers",
}
# https://github.com/iree-org/iree/blob/main/runtime/src/iree/base/status.h, from 1 on
_STATUSES = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
    "DATA_LOSS",
)  # fmt: skip
_SIZES = "pass arrays of the sizes in the function's declaration"
_ADVICE = {
    "INVALID_ARGUMENT": _SIZES,
    "OUT_OF_RANGE": _SIZES,
    "PERMISSION_DENIED": "let this user open the device, as by the group `render`",
    "RESOURCE_EXHAUSTED": "free arrays on the device, or compute in parts",
    "ABORTED": "look the kernel up again: the device was lost, or an earlier kernel has failed",
    "UNIMPLEMENTED": "choose another driver of IREE (GPUFORGE_IREE)",
    "DATA_LOSS": "install the wheel again",
}
_STATUS = re.compile(r"(?:^|\s)\S+:\d+: (?P<status>[A-Z_]+); (?P<text>.*)", re.DOTALL)

_lock = threading.Lock()
_devices: dict[str, tuple[Any, list[dict[str, Any]]]] = {}  # by IREE's driver: the driver and its devices
_opened_by = [0]  # the process that opened a driver, whose threads do not exist in a fork


def devices_for(places: Iterable[BuildPlace], env: Mapping[str, str]) -> dict[str, tuple[str, ...] | Reason]:
    """Return the names of the devices for each kind of IREE's images in some places, or why there are none.

    Never raises, and never hangs. A failure is not remembered. The release of IREE's runtime is compared with that of
    the compiler before a library of IREE is loaded.
    """
    found: dict[str, tuple[str, ...] | Reason] = {}
    for place in places:
        contents = place.contents
        needed, install = (contents.compiler.version or "", contents.install) if contents else ("", "")
        for kind in dict.fromkeys(image.kind for image in place.images if image.about.loader == "IREE"):
            problem = _off(kind, env) or _other_release(needed, install)
            found[kind] = problem or _names(KINDS[kind].iree_driver, env, install)
    return found


def _other_release(needed: str, install: str) -> Reason | None:
    """Return why the installed runtime does not load modules of the compiler "3.13.0"; None if it may.

    The runtime 3.12 loads no module of the compiler 3.11 (https://github.com/iree-org/iree/releases/tag/v3.12.0), and
    other pairs are not tested. A runtime without a distribution is not checked.
    """
    import importlib.metadata

    try:
        found = importlib.metadata.version("iree-base-runtime")
    except importlib.metadata.PackageNotFoundError:
        return None
    if not needed or _release(found) == _release(needed):
        return None
    return Reason("other-iree-release", {"found": found, "needed": needed, "install": install})


def _release(version: str) -> list[str]:
    """Return the common part of one release's versions: 3 and 13 of 3.13.0 and 3.13.1rc20261101."""
    return version.split(".")[:2]


def _off(kind: str, env: Mapping[str, str]) -> Reason | None:
    """Return why the environment does not allow a driver, which is then not opened; None if it does."""
    off = switched_off(env)
    if off and KINDS[kind].built_for != "CPU":
        return off
    allowed = env.get(VARIABLE, "")
    if not allowed or KINDS[kind].iree_driver in allowed.split(","):
        return None
    return Reason("switched-off", {"variable": VARIABLE, "value": allowed})


def opened(driver: str, number: int) -> tuple[Any, dict[str, Any]]:
    """Return a driver that `devices` has found, and its description of device `number`."""
    found, infos = _devices[driver]
    return found, infos[number]


def refuse_fork(device: str) -> None:
    """Raise DriverError in a forked process, in which IREE would wait for threads of the parent."""
    if _opened_by[0] != os.getpid():
        raise DriverError("fork", 9, "FAILED_PRECONDITION", str(Reason("forked")), device=device)


def _names(driver: str, env: Mapping[str, str], install: str) -> tuple[str, ...] | Reason:
    if _opened_by[0] not in {0, os.getpid()}:
        return Reason("forked")
    if driver not in _devices:
        problem: Reason | None = Attempt(IREE, partial(_open, driver, install)).wait(patience(env))
        if problem is not None:
            return problem
    return tuple(info["name"] for info in _devices[driver][1])


def _open(driver: str, install: str) -> Reason | None:
    try:
        import iree.runtime as iree
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "iree":
            return Reason("not-installed", {"what": "iree.runtime", "install": install})
        return Reason(
            "not-the-library", {"library": "iree.runtime", "what": IREE.what, "problem": str(error)}
        )
    reach(_OPENED.get(driver, ()))
    with _lock:
        try:
            found = iree.get_driver(driver)
            infos = found.query_available_devices()
        except (RuntimeError, ValueError) as error:
            facts = {"driver": driver, "problem": status_of(error)[1], "advice": ADVICE.get(driver, "")}
            return Reason("no-iree-driver", facts)
        if not infos:
            return Reason("no-iree-device", {"driver": driver})
        _opened_by[0] = os.getpid()
        _devices[driver] = found, [{**info, "name": printable(str(info["name"]))} for info in infos]
    return None


def status_of(error: Exception) -> tuple[str, str]:
    """Return the status and the message of a failure in IREE, in one line without places in IREE's code."""
    found = _STATUS.search(str(error))
    text = found["text"] if found else str(error)
    return found["status"] if found else "UNKNOWN", text.strip().partition("\n")[0].rstrip(": ;")


def failure(error: Exception, call: str, driver: str, device: str, kernel: str = "") -> DriverError:
    """Return an error of IREE as a driver's error, with the kernel that it belongs to."""
    status, text = status_of(error)
    code = _STATUSES.index(status) + 1 if status in _STATUSES else 2
    return DriverError(
        f"{call} with IREE's {driver}", code, status, text, advice=_ADVICE.get(status, ""), kernel=kernel, device=device
    )  # fmt: skip
