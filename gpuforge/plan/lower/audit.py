"""The audit of a finished wheel: with what its requirements bring, and what it must live beside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.requirements import Requirement

from gpuforge.cuda.suffix import major_in
from gpuforge.cuda.version import major_of
from gpuforge.plan.action import ActionInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.expectation import expectation
from gpuforge.plan.lower import compiler, testing
from gpuforge.plan.lower.plan_context import PlanContext, placeholders
from gpuforge.plan.requests.audit import AuditWheel, FetchBeside


def audit(
    context: PlanContext,
    cell: Cell,
    wheel: ActionInput,
    own: ActionInput | None,
    provided: ActionInput | None,
) -> ActionInput:
    """Prove the finished wheel against the manifest; an error finding fails the cell.

    `own` is its kernels wheel, if it has one. If the index was looked up (`provided`), the audit also reads the
    packages that the test installs.
    """
    inputs: dict[str, Input] = {"wheel": wheel, **({"kernels": own} if own else {})}
    installed: Mapping[str, Input] = {}
    if provided:
        inputs["provided"] = provided
        installed = testing.installed(context, cell, wheel, own) if context.test else {}
    beside = _beside(context, cell, wheel, own)
    return context.add_request(
        AuditWheel(
            wheel=Path("${in:wheel}"),
            expectation=expectation(context.file, cell.cuda or None),
            provided=Path("${in:provided}") if provided else None,
            installed=placeholders(installed),
            beside=placeholders(beside),
            kernels=Path("${in:kernels}") if own else None,
            kernels_report=Path("${out:kernels.json}") if own else None,
            report=Path("${out:report.json}"),
        ),
        context.machine.at(cell),
        id=f"{cell.id}/audit",
        kind="audit",
        title=f"audit the wheel of {cell.id}",
        inputs={**inputs, **installed, **beside},
        outputs=("report.json", "kernels.json") if own else ("report.json",),
        by_content=True,
        cells=(cell.id,),
    )


def _beside(
    context: PlanContext, cell: Cell, wheel: ActionInput, own: ActionInput | None
) -> dict[str, ActionInput]:
    """Fetch what `[audit] beside` names, each resolved together with the wheel."""
    at = context.machine.tested_at(cell)
    major = major_of(cell.toolkit) if cell.toolkit else None
    packages = [text for text in context.file.manifest.audit.beside if is_for(text, major)]
    kernels = {"kernels": ActionInput(own.action, "declared")} if own else {}
    return {
        f"beside{number}": context.add_request(
            FetchBeside(
                beside=requirement,
                wheel=Path("${in:wheel}"),
                extras=testing.extras(context.file, cell),
                own=Path("${in:kernels}") if own else None,
                python=Path("${in:python}"),
                scratch=Path("${work}"),
                output=Path("${out:wheels}"),
            ),
            at,
            id=f"{cell.id}/beside/{number}",
            kind="fetch",
            title=f"fetch what {cell.id} must live beside: {requirement}",
            inputs={
                "wheel": ActionInput(wheel.action, "declared"),
                "python": compiler.interpreter(cell, at),
                **kernels,
            },
            outputs=("wheels",),
            by_content=True,
            cells=(cell.id,),
            **context.by_pip,
        )
        for number, requirement in enumerate(packages)
    }


def is_for(requirement: str, major: int | None) -> bool:
    """Return whether a requirement is for a CUDA major, or for any: jax[cuda12] and cupy-cuda12x are not for 13.

    A wheel without CUDA (None) may meet all of them.
    """
    parsed = Requirement(requirement)
    found = {major_in(name) for name in (parsed.name, *parsed.extras)} - {None}
    return major is None or not found or major in found
