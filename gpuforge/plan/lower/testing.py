"""The test of a finished wheel as actions: what it needs is fetched, then it is installed, imported and tested."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gpuforge.manifest import braces, kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan import sources, variables
from gpuforge.plan.action import Action, ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.site import Location, Machine


class Lowering(Protocol):
    """What the lowering of a whole manifest gives to that of its tests."""

    file: ManifestFile
    machine: Machine
    gpu: bool
    apart: dict[str, ActionInput]  # by Cell.id: the kernels wheel

    @property
    def pip_facts(self) -> Mapping[str, str]:
        """What of pip's variables decides on what it fetches."""

    def add(self, action: Action) -> str:
        """Add an action unless the same is there already; return its id."""

    def step(self, program: str, **arguments: Any) -> tuple[str, ...]:
        """Return the argv of one of gpuforge's own steps."""

    def users(self, *, cuda: str | None = None, python: str | None = None) -> tuple[str, ...]:
        """Return the ids of the cells that share something."""

    def kernel_libraries(self, cell: Cell) -> Sequence[ActionInput]:
        """Return the kernel sets of a cell that are libraries."""

    def itself(self, program: str, at: Location) -> Input:
        """Return gpuforge's own step as an input."""

    def python(self, cell: Cell, at: Location) -> Input:
        """Return a cell's interpreter as an input."""

    def source(self) -> Input:
        """Return the source tree."""

    def toolkit(self, cell: Cell, at: Location) -> Input:
        """Return the toolkit of a cell."""


def test(lowering: Lowering, cell: Cell, wheel: ActionInput) -> ActionInput:
    """Install the wheel with what it declares alone, import it, and run the manifest's command.

    One wheel for many Pythons is tested on the one that builds it, which is the lowest at hand.
    """
    manifest, wanted = lowering.file.manifest, lowering.file.manifest.test
    at = lowering.machine.tested_at(cell)
    wheels = installed(lowering, cell, wheel)
    if cell.id in lowering.apart:
        wheels["kernels"] = lowering.apart[cell.id]
    inputs: dict[str, Input] = {"python": lowering.python(cell, at), "wheel": wheel, **wheels}
    with_project = any("project" in braces.names(word) for word in wanted.command)
    with_sources = bool(wanted.command and wanted.sources)
    if with_project:
        inputs["project"] = lowering.source()
    if with_sources:
        inputs["tests"] = sources.test_sources(lowering.file)
    if manifest.cuda.linkage == "system":
        inputs["toolkit"] = lowering.toolkit(cell, at)
    action = Action(
        id=f"{cell.id}/test",
        kind="test",
        title=f"test the wheel of {cell.id} on Python {_python(lowering, cell)}",
        argv=lowering.step(
            "try_wheel",
            cell=cell.id,
            wheel="${in:wheel}",
            python="${in:python}",
            wheels=[f"${{in:{name}}}" for name in wheels],
            extra=extras(lowering.file, cell),
            cuda=cell.toolkit,
            **{"import": manifest.package.import_},
            requires=json.dumps(list(wanted.requires)),
            command=json.dumps(list(wanted.command)),
            project="${stage:project}" if with_project else None,
            folder="${stage:tests}" if with_sources else None,
            toolkit="${in:toolkit}" if "toolkit" in inputs else None,
            scratch="${work}",
            result="${out:result.json}",
        ),
        inputs={"gpuforge": lowering.itself("try_wheel", at), **inputs},
        outputs=("result.json",),
        by_content=True,
        env=variables.test(manifest.cuda.linkage, at.path, gpu=lowering.gpu),
        gpu=lowering.gpu,
        image=at.image_id,
        cells=(cell.id,),
    )
    return ActionInput(lowering.add(action), "result.json")


def installed(lowering: Lowering, cell: Cell, wheel: ActionInput) -> dict[str, Input]:
    """Return the folders of wheels that the test installs beside the wheel itself."""
    wheels: dict[str, Input] = {"needed": _declared(lowering, cell, wheel)}
    if shared := _shared(lowering, cell):
        wheels["shared"] = shared
    return wheels


def _shared(lowering: Lowering, cell: Cell) -> ActionInput | None:
    """Fetch what the test command needs, once per Python and while the wheels are built; None for nothing."""
    test = lowering.file.manifest.test
    if not (test.command and test.requires):
        return None
    image = lowering.machine.tested_at(cell).image
    return _fetch(
        lowering,
        cell,
        id=f"py{cell.python}{f'-{image.name}' if image else ''}/test-requirements",
        title=f"fetch what the tests need on Python {_python(lowering, cell)}",
        cells=lowering.users(python=cell.python),
    )


def _declared(lowering: Lowering, cell: Cell, wheel: ActionInput) -> ActionInput:
    """Fetch what a wheel declares, chosen together with what the test command needs.

    Another wheel that declares the same has it already, whatever else it holds.
    """
    shared = _shared(lowering, cell)
    return _fetch(
        lowering,
        cell,
        id=f"{cell.id}/test-requirements",
        title=f"fetch what the wheel of {cell.id} declares",
        cells=(cell.id,),
        wheel=ActionInput(wheel.action, "declared"),
        at_hand=shared,
        own=declared_kernels(lowering, cell),
    )


def declared_kernels(lowering: Lowering, cell: Cell) -> ActionInput | None:
    """Return what a cell's kernels wheel declares; None where kernels lie inside the wheel."""
    own = lowering.apart.get(cell.id)
    return ActionInput(own.action, "declared") if own else None


def _fetch(
    lowering: Lowering,
    cell: Cell,
    *,
    id: str,  # noqa: A002  as Action calls it
    title: str,
    cells: tuple[str, ...],
    wheel: ActionInput | None = None,
    at_hand: ActionInput | None = None,
    own: ActionInput | None = None,
) -> ActionInput:
    test, at = lowering.file.manifest.test, lowering.machine.tested_at(cell)
    read: dict[str, Input] = {
        name: value
        for name, value in (("wheel", wheel), ("shared", at_hand), ("kernels", own))
        if value is not None
    }
    action = Action(
        id=id,
        kind="fetch",
        title=title,
        argv=lowering.step(
            "fetch_test_requirements",
            python="${in:python}",
            requires=json.dumps(list(test.requires if test.command else ())),
            wheel="${in:wheel}" if wheel else None,
            extra=extras(lowering.file, cell) if wheel else None,
            cuda=cell.toolkit if wheel else None,
            at_hand="${in:shared}" if at_hand else None,
            own="${in:kernels}" if own else None,
            output="${out:wheels}",
        ),
        inputs={
            "gpuforge": lowering.itself("fetch_test_requirements", at),
            "python": lowering.python(cell, at),
            **read,
        },
        outputs=("wheels",),
        by_content=wheel is not None,
        facts=lowering.pip_facts,
        env=variables.fetch() | {"PATH": at.path},
        passes=variables.requirement_passes(),
        network=True,
        caches=variables.PIP_CACHE,
        image=at.image_id,
        cells=cells,
    )
    return ActionInput(lowering.add(action), "wheels")


def extras(file: ManifestFile, cell: Cell) -> list[str]:
    """Return the extras that a user would install: that of the kernels or CUDA packages, and the tests'."""
    cuda = file.manifest.cuda
    by_extra = (cuda.linkage, cuda.requires) == ("pip", "extra") or kernels_wheels.is_split(file.manifest)
    own = [kernels_wheels.extra_for(cell.toolkit)] if by_extra else []
    return list(dict.fromkeys([*own, *file.manifest.test.extras]))


def _python(lowering: Lowering, cell: Cell) -> str:
    """Return the Python that a cell's wheel is tested on: "3.11", also where the wheel serves every Python 3."""
    return ".".join(lowering.machine.tested_at(cell).interpreters[cell.python].version.split(".")[:2])
