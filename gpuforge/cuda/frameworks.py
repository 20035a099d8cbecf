"""Frameworks that extensions are made for, and the names of their files, functions and builds."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from gpuforge.datafile import load, rows


class Framework(NamedTuple):
    """A framework's row of data/runtimes.toml, which explains each field."""

    package: str
    named: str
    opens: tuple[str, ...]
    cuda_release: str = ""
    linked: bool = False
    libraries: str = ""
    headers: tuple[str, ...] = ()
    cmake: str = ""
    builder: str = ""

    def is_in(self, name: str) -> bool:
        """Return whether the name of a file or a project contains the framework's: libx_torch_ops.so."""
        return re.search(self.named, name) is not None


@cache
def frameworks() -> tuple[Framework, ...]:
    """Return every known framework."""
    return rows(Framework, load(__file__, "runtimes.toml")["framework"])


def linked() -> tuple[Framework, ...]:
    """Return the frameworks that extensions link with, and whose libraries no wheel may contain: torch."""
    return tuple(each for each in frameworks() if each.linked)
