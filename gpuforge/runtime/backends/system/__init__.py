"""Libraries for the CPU, opened by the system's loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import cpu
from ...cpu_level import CpuLevel
from ...image import Build, Image
from ...machine import Probe
from ...reason import Reason, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...build_place import BuildPlace
    from ...index import Module
    from .. import Here, Request
    from .kernel import HostKernel


def look(machine: Probe, places: Sequence[BuildPlace], env: Mapping[str, str]) -> None:
    """Return nothing: the CPU is a fact of the machine."""


def judge(image: Image, build: Build, here: Here) -> Verdict:
    """Judge a library by its level of CPUs."""
    level = image.built_for
    if not isinstance(level, CpuLevel):
        return Verdict(False, here.obstacle or Reason("not-loadable"))
    return Verdict.of(cpu.refusal(level, here.machine.cpu) or build.failure, _merit(build, level))


def make(request: Request, image: Image, module: Module, place: BuildPlace) -> HostKernel:
    """Return a function of a library; raises Refused, DriverError."""
    from .kernel import load

    entry = request.entry
    if entry.parameters is None:
        from ...declarations import parameters_of

        entry = entry._replace(parameters=parameters_of(request.sources, entry.symbol))
    return load(module.file, entry, str(request.machine.problem or ""))


def _merit(build: Build, level: CpuLevel) -> Reason:
    if level.name:
        return Reason("made-for-level", {"level": level.name})
    facts = {"name": build.name, "compiler": build.compiler}
    return Reason("made-there", facts) if build.name else Reason("no-gpu-needed")
