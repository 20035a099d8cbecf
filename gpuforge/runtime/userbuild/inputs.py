"""What a set of modules is compiled for and with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..arch import Arch
from ..machine import Probe
from ..switches import gpu_disabled, switched_off


@dataclass(frozen=True)
class CompileInputs:
    """What modules are compiled for and with: this machine, the user's own sources, environment and time limit."""

    machine: Probe
    arch: Arch | None  # of the first GPU
    extra: Sequence[Path]
    env: Mapping[str, str]
    limit: float

    @property
    def no_gpu(self) -> str:
        """Why there is no GPU to compile for, where `arch` is None."""
        why = switched_off(self.env) if gpu_disabled(self.env) else self.machine.problem
        return "no GPU to compile for" + (f": {why}" if why else "")
