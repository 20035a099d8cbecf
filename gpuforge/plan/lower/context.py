"""What the actions of one plan are decided from, and the actions that are decided already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.package import PathSource
from gpuforge.plan import programs, sources, variables
from gpuforge.plan.action import Action, ActionInput, FileInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.requests.request import Request, dump
from gpuforge.plan.site import Location, Machine
from gpuforge.toolchains.family import Compiler


@dataclass(frozen=True)
class Context:
    """The manifest, the chosen cells and the machine; with `test` the wheels are tested, with `gpu` on its GPUs."""

    file: ManifestFile
    cells: tuple[Cell, ...]
    machine: Machine
    test: bool = True
    gpu: bool = False
    actions: dict[str, Action] = field(default_factory=dict)  # by id, in the order of the data flow
    _programs: dict[tuple[str, str | None], Input] = field(default_factory=dict)

    def add(self, action: Action, output: str) -> ActionInput:
        """Add an action unless several cells share it and it is there already; return one of its outputs."""
        if self.actions.setdefault(action.id, action) != action:
            msg = f"two different actions are called {action.id}"
            raise ValueError(msg)
        return ActionInput(action.id, output)

    def add_step(
        self, request: Request, at: Location | None, output: str, *, code: str = "", **fields: Any
    ) -> ActionInput:
        """Add the action that runs a step program, at a place or (None) with gpuforge's own Python; return an output.

        `fields` are those of `Action`. `code` names what decides on the output in `programs.CODE`; default: the
        program.
        """
        inputs = {"gpuforge": self._program(code or request.program, at), **fields.pop("inputs", {})}
        argv = ("${in:gpuforge}", "-I", "-m", f"gpuforge.steps.{request.program}", "${request}", "${result}")
        environ = fields.pop("env", variables.plain())
        if at:
            environ = {"PATH": at.path, **environ}
        fields |= {"argv": argv, "request": dump(request), "inputs": inputs, "env": environ}
        return self.add(Action(image=at.image_id if at else None, **fields), output)

    def _program(self, code: str, at: Location | None) -> Input:
        """Return gpuforge itself as an input: of this machine or, in an image, where the runner lays it."""
        image = at.image if at else None
        key = (code, image.id if image else None)
        if key not in self._programs:
            self._programs[key] = (
                programs.in_image(code, image.inventory.steps_python()) if image else programs.itself(code)
            )
        return self._programs[key]

    def users(self, *, cuda: str | None = None, python: str | None = None) -> tuple[str, ...]:
        """Return the ids of the cells that share something of one toolkit, one Python, or everything."""
        return tuple(c.id for c in self.cells if cuda in {None, c.cuda} and python in {None, c.python})

    def users_of(self, host: Compiler) -> tuple[str, ...]:
        """Return the ids of the cells whose host build or kernels a compiler is used for."""
        found = []
        for cell in self.cells:
            of_kernels = self.machine.kernels_at(cell.cuda).hosts[cell.cuda]
            if host in (of_kernels, self.machine.host_at(cell)[1]):
                found.append(cell.id)
        return tuple(found)

    @cached_property
    def pip_facts(self) -> dict[str, str]:
        """What of pip's variables decides on what it fetches."""
        return variables.pip_facts()

    @cached_property
    def tree(self) -> FileInput | None:
        """The host build's files when the source is a folder of this machine; else None."""
        source = self.file.manifest.package.source
        if not isinstance(source, PathSource):
            return None
        return sources.host_tree(self.file, self.file.folder / source.path)


def placeholders(inputs: Iterable[str]) -> tuple[Path, ...]:
    """Return the placeholders of inputs, by their names."""
    return tuple(Path(f"${{in:{name}}}") for name in inputs)
