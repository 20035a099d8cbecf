"""Decides whether two wheels can be installed into one environment."""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.tags import Tag

from gpuforge.audit.model import WheelFacts
from gpuforge.cpython import CPython

_PLATFORM = r"(?:many|musl)?(linux|macosx|win)[\d_]*(?<=[\d_])([a-z]\w+|$)"


def can_coexist(one: WheelFacts, other: WheelFacts) -> bool:
    """Return whether one environment can have both: by the processors and the Pythons of their tags."""
    return _fit(one.file_tags, other.file_tags)


@lru_cache(
    maxsize=4096
)  # each of thousands of wheels, which have few different tags, is compared with all others
def _fit(one: tuple[Tag, ...], other: tuple[Tag, ...]) -> bool:
    for parts in ((_machines(one), _machines(other)), (_pythons(one), _pythons(other))):
        if all(parts) and not parts[0] & parts[1]:
            return False
    return True


def _machines(tags: tuple[Tag, ...]) -> set[str]:
    """Return the systems and processors that a wheel is for, "linux x86_64"; empty if it is for any."""
    found = (re.fullmatch(_PLATFORM, tag.platform) for tag in tags)
    return {f"{match[1]} {match[2]}" for match in found if match}


def _pythons(tags: tuple[Tag, ...]) -> set[str]:
    """Return the Pythons that a wheel is for; empty if it is for many."""
    abis = {tag.abi for tag in tags}
    return abis if all(map(CPython.of_tag, abis)) else set()
