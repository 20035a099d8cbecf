"""The libraries of the build environment's packages that a wheel uses at run time, such as torch's."""

from __future__ import annotations

from pathlib import Path

from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.build_environment import build_environment, environment_name
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.requests.carried import CarriedLibraries


def carried(context: PlanContext, cell: Cell) -> ActionInput:
    """List them, while the host build runs in another copy of that environment."""
    at, _ = context.machine.host_at(cell)
    env = build_environment(context, cell, at)
    return context.add_request(
        CarriedLibraries(
            environment=Path("${in:env}"),
            packages=context.file.manifest.wheel.provided_by,
            output=Path("${out:carried.json}"),
        ),
        at,
        id=f"{environment_name(context, cell, at)}/carried",
        kind="prepare",
        title=f"list the libraries of the build environment for Python {cell.python}",
        inputs={"env": env},
        outputs=("carried.json",),
        by_content=True,
        cells=context.actions[env.action].cells,
    )
