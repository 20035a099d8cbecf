"""Which keys an object of each role must and may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoleKeys:
    """Which keys an object of one role must and may have, besides `name` and `role`."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


ROLE_KEYS: Mapping[str, RoleKeys] = {
    "host-only": RoleKeys(("files",), ("needs",)),
    "gpu": RoleKeys(("files",)),
    "user-compiled": RoleKeys(
        ("sources", "toolchains"), ("headers", "kind", "abi", "flags", "in-host-build")
    ),
    "fallback": RoleKeys(
        ("sources", "toolchain"), ("headers", "kind", "cpu", "abi", "stands-in-for", "flags", "in-host-build")
    ),
}
