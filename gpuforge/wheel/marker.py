"""Markers of requirements: the extras in them, and whether they hold in an environment.

https://packaging.python.org/en/latest/specifications/dependency-specifiers/#environment-markers
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from packaging.markers import Marker

_PYTHONS = tuple(f"3.{minor}" for minor in range(40))
_EXTRA = re.compile(r'\bextra ===? "([^"]+)"|"([^"]+)" ===? extra\b')


def extras_in(marker: Marker | None) -> list[str]:
    """Return the extras that a marker compares with: "cuda13" of `extra == "cuda13"` and of `"cuda13" == extra`.

    packaging writes every marker in one form, with double quotes and single spaces, but has no interface to its parts.
    """
    return [one or other for one, other in _EXTRA.findall(str(marker))]


def environment(machine: str, python: str = "") -> dict[str, str]:
    """Return the environment of markers on a Linux machine; without a Python ("3.11") it is that of the running one."""
    found = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    return found | ({"python_version": python, "python_full_version": f"{python}.0"} if python else {})


def holds(marker: Marker | None, environment: Mapping[str, str], extra: str = "") -> bool:
    """Return whether a requirement with this marker is installed with an extra, or without; True for unknown words."""
    try:
        return marker is None or marker.evaluate({**environment, "extra": extra})
    except (ValueError, KeyError):  # packaging's errors for comparisons and names that do not exist
        return True


def always_holds(marker: Marker | None, machine: str, extra: str = "") -> bool:
    """Return whether a requirement with this marker is installed with every Python on Linux, as in `holds`."""
    return all(holds(marker, environment(machine, python), extra) for python in _PYTHONS)


def extra_of(marker: Marker | None, environment: Mapping[str, str]) -> str | None:
    """Return the extra that a marker needs, "" if it needs none; None if it does not hold in this environment."""
    return next((extra for extra in ("", *extras_in(marker)) if holds(marker, environment, extra)), None)
