"""The packages that a wheel's CUDA libraries come from: looked up on the index before the wheel is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.plan_context import PlanContext, numbered, placeholders
from gpuforge.plan.lower.toolkit import toolkit
from gpuforge.plan.requests.links import FetchProvided, WheelLinks


def provided(
    context: PlanContext, cell: Cell, host: ActionInput, libraries: Sequence[ActionInput]
) -> ActionInput | None:
    """Look up the packages of the libraries that a wheel needs; None if no package is required for them.

    The wheel is that of the host build, with the kernel sets that are `libraries`. A wheel with
    the same libraries and symbols shares the result.
    """
    if context.file.manifest.cuda.linkage != "pip" or not cell.cuda:
        return None
    return context.add_request(
        FetchProvided(
            links=Path("${in:links}"),
            cuda=cell.toolkit,
            machine=cell.machine,
            output=Path("${out:provided.json}"),
        ),
        None,
        id=f"{cell.build_id}/provided",
        kind="fetch",
        title=f"read what the CUDA packages of {cell.build_id} provide and require",
        inputs={"links": _links(context, cell, host, libraries)},
        outputs=("provided.json",),
        by_content=True,
        facts=context.pip_facts,
        env=variables.fetch(),
        passes=variables.index_passes(context.environ),
        network=True,
        cells=context.users(cuda=cell.cuda, python=cell.python, axes=cell.axes),
    )


def _links(
    context: PlanContext, cell: Cell, host: ActionInput, libraries: Sequence[ActionInput]
) -> ActionInput:
    at = context.machine.at(cell)
    found = at.toolkits[cell.cuda]
    archives = {"toolkit": toolkit(context, cell, at)} if found.packages_file else {}
    return context.add_request(
        WheelLinks(
            wheel=Path("${in:wheel}"),
            kernels=placeholders(numbered(libraries)),
            cuda=cell.toolkit,
            pins=found.packages,
            pins_file=Path("${in:toolkit}", found.packages_file) if archives else None,
            scratch=Path("${work}"),
            output=Path("${out:links.json}"),
        ),
        at,
        id=f"{cell.build_id}/links",
        kind="package",
        title=f"find the CUDA libraries that {cell.build_id} needs",
        inputs={"wheel": host, **numbered(libraries), **archives},
        outputs=("links.json",),
        by_content=True,
        cells=context.users(cuda=cell.cuda, python=cell.python, axes=cell.axes),
    )
