"""The inputs for compiling a set of modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..arch import Arch
from ..machine import Probe
from ..switches import gpu_disabled, switched_off


@dataclass(frozen=True)
class CompileInputs:
    """The inputs for compiling modules: this machine, the user's own sources, environment and time limit."""

    machine: Probe
    arch: Arch | None  # of the first GPU
    extra: Sequence[Path]
    env: Mapping[str, str]
    limit: float

    @property
    def no_gpu(self) -> str:
        """Why there is no GPU to compile for, if `arch` is None."""
        why = switched_off(self.env) if gpu_disabled(self.env) else self.machine.problem
        return "no GPU to compile for" + (f": {why}" if why else "")
