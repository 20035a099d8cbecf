"""From the manifest and its chosen cells to actions: the whole data flow of a cell, in its order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from gpuforge.actions.audit import audit
from gpuforge.actions.front import front_package
from gpuforge.actions.host_build import host_build
from gpuforge.actions.kernels import kernels
from gpuforge.actions.kernels_wheel import first_of, host_wheel, kernels_wheel
from gpuforge.actions.provided import provided
from gpuforge.actions.trial import tests
from gpuforge.actions.wheel import finished_wheel, make_variant
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.axes import Point, Values
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.cell import Cell, matrix
from gpuforge.plan.context import PlanContext
from gpuforge.plan.site import Machine
from gpuforge.plan.supported import notes, refuse, tested_where_built

# by Cell.cuda, .axes and .machine, and the object's name
_Kernels = dict[tuple[str, Values, str], Mapping[str, ActionInput]]


@dataclass(frozen=True)
class Plan:
    """A plan: the cells, their actions, and the outputs that will be each cell's wheel, report and test result.

    `kernels` are the cells' kernels wheels, empty if kernels lie inside the wheels, and `kernels_reports` their audit
    reports. `front` is the front package with the report of its audit. `tests` is empty when the wheels are not tested.
    `notes` are for users: requests of the manifest that this plan does not fulfil.
    """

    cells: tuple[Cell, ...]
    actions: tuple[Action, ...]
    wheels: dict[str, ActionInput]
    reports: dict[str, ActionInput]
    tests: dict[str, tuple[ActionInput, ...]]
    machine: Machine
    notes: tuple[str, ...] = ()
    kernels: Mapping[str, ActionInput] = field(default_factory=dict)
    kernels_reports: Mapping[str, ActionInput] = field(default_factory=dict)
    front: tuple[ActionInput, ActionInput] | None = None

    @property
    def targets(self) -> frozenset[str]:
        """The actions whose outputs are read at the end."""
        ends = [end for each in (self.wheels, self.kernels, self.reports) for end in each.values()]
        tests = [end for each in self.tests.values() for end in each]
        return frozenset(end.action for end in (*ends, *tests, *(self.front or ())))


class _Ends(NamedTuple):
    """The outputs of one cell: its wheel, the audit's report and, if it has them, its kernels wheel and its tests."""

    wheel: ActionInput
    report: ActionInput
    own: ActionInput | None
    tests: tuple[ActionInput, ...]


def lower(
    file: ManifestFile,
    cells: Sequence[Cell],
    machine: Machine,
    environ: Mapping[str, str] = MappingProxyType({}),
    *,
    test: bool = True,
    gpu: bool = False,
) -> Plan:
    """Return the plan of `cells`, in the order of the data flow; raises UsageError for what cannot be done.

    Fetches and builds see some of the variables in `environ`.

    With `test`, each wheel is also installed, imported and tested; with `gpu`, the test sees the machine's GPUs.
    """
    refuse(file, cells)
    context = PlanContext(file, tuple(cells), machine, test, gpu, environ, _files(file, cells))
    compiled: _Kernels = {}
    ends = {}
    contexts = {(cell.point, cell.machine): context.on(cell.machine).at(cell.point) for cell in cells}
    for cell in cells:
        here = contexts[cell.point, cell.machine]
        if (cell.cuda, cell.axes, cell.machine) not in compiled:
            compiled[cell.cuda, cell.axes, cell.machine] = kernels(here, cell)
        ends[cell.id] = _cell(here, cell, compiled)
    front = front_package(context)
    return Plan(
        cells=tuple(cells),
        actions=_with_cells(context.actions, ends, front),
        wheels={cell: end.wheel for cell, end in ends.items()},
        reports={cell: end.report for cell, end in ends.items()},
        tests={cell: end.tests for cell, end in ends.items() if end.tests},
        machine=machine,
        notes=(*notes(file, test=test), *(tested_where_built(cells, machine) if test else ())),
        kernels={cell: end.own for cell, end in ends.items() if end.own},
        kernels_reports={
            cell: ActionInput(end.report.action, "kernels.json") for cell, end in ends.items() if end.own
        },
        front=front,
    )


def _with_cells(
    actions: dict[str, Action], ends: Mapping[str, _Ends], front: tuple[ActionInput, ...] | None
) -> tuple[Action, ...]:
    """Return the actions, each with the ids of the cells that need it; all need the front package."""
    users: dict[str, set[int]] = {name: set() for name in actions}
    for number, end in enumerate(ends.values()):
        for each in (end.wheel, end.report, *([end.own] if end.own else []), *end.tests, *(front or ())):
            users[each.action].add(number)
    for name, action in reversed(actions.items()):
        for need in action.needs:
            users[need] |= users[name]
    cells = tuple(ends)
    return tuple(
        replace(action, cells=tuple(cells[number] for number in sorted(users[name])))
        for name, action in actions.items()
    )


def _files(file: ManifestFile, cells: Sequence[Cell]) -> dict[Point, ManifestFile]:
    """Return the manifest at each point of its axes, also of cells that are not chosen; empty without axes."""
    every = matrix(file.manifest, cells[0].machine) if file.manifest.axes and cells else ()
    return {point: file.at(point) for cell in every for point in cell.points}


def _cell(context: PlanContext, cell: Cell, compiled: _Kernels) -> _Ends:
    """Add everything that one cell needs: the host build, the wheel, its proof and its test."""
    host = host_build(context, cell)
    own = brought = None
    if kernels_wheels.is_split(context.file.manifest):
        shared = compiled[first_of(context, cell).cuda, (), cell.machine]
        wheel = host_wheel(context, cell, host, _chosen(context, shared, own=False))
        own = kernels_wheel(context, cell, _chosen(context, compiled[cell.cuda, (), cell.machine], own=True))
    else:
        here = compiled[cell.cuda, cell.axes, cell.machine]
        # a library needs other libraries, as the host wheel does
        fallbacks = (item for item in context.objects if item.role == "fallback" and item.kind == "library")
        libraries = [here[item.name] for item in fallbacks]
        brought = provided(context, cell, host, libraries)
        wheel = finished_wheel(context, cell, host, list(here.values()), brought)
    report = audit(context, cell, wheel, own, brought)
    final = make_variant(context, cell, wheel, report) if cell.naming == "variant" else wheel
    tested = tests(context, cell, wheel, own) if context.test else ()
    return _Ends(final, report, own, tested)


def _chosen(context: PlanContext, compiled: Mapping[str, ActionInput], *, own: bool) -> list[ActionInput]:
    """Return the objects' kernels that go into a cell's kernels wheel (`own`), or into the package's."""
    return [compiled[item.name] for item in context.objects if item.in_kernels_wheel is own]
