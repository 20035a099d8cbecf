"""What a set of modules is compiled for and with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..arch import Arch
from ..machine import Probe


@dataclass(frozen=True)
class CompileInputs:
    """What modules are compiled for and with: this machine, the user's own sources, environment and time limit."""

    machine: Probe
    arch: Arch | None  # of the first GPU
    extra: Sequence[Path]
    env: Mapping[str, str]
    limit: float
