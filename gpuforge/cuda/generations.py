"""GPU generations by compute capability, and the machines that have them; the table is data/generations.toml."""

from functools import cache
from typing import NamedTuple

from gpuforge.datafile import load, rows
from gpuforge.runtime.arch import Arch


class Generation(NamedTuple):
    """A compute capability of GPUs."""

    capability: str  # "12.0"
    family: str  # the name of GPUs of several capabilities together: "Blackwell"
    gpu: str = ""  # the only GPU or board with it: "RTX 50"; "" if there are many
    machines: tuple[str, ...] = ()  # the machines with such GPUs; empty for all

    @property
    def name(self) -> str:
        """Its name in reports: "Blackwell, RTX 50"."""
        return f"{self.family}, {self.gpu}" if self.gpu else self.family

    @property
    def number(self) -> tuple[int, int]:
        """The capability as (12, 0)."""
        return Arch.parse(self.capability).capability


@cache
def generations(machine: str = "") -> tuple[Generation, ...]:
    """Return the generations that can be in a machine ("x86_64"), or all of them, oldest first."""
    known = rows(Generation, load(__file__, "generations.toml")["generation"])
    return tuple(g for g in known if not machine or not g.machines or machine in g.machines)
