"""The audit of a finished wheel as actions: with what its requirements bring, and what it must live beside."""

from __future__ import annotations

from gpuforge.plan import environment, lower_provided, lower_test
from gpuforge.plan.action import Action, ActionInput, FileInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower_test import Lowering


def audit(
    lowering: Lowering, cell: Cell, wheel: ActionInput, host: ActionInput, *, test: bool
) -> ActionInput:
    """Prove the finished wheel against the manifest; an error finding fails the cell.

    With `test`, what the test installs is followed, too, as far as it is not what was looked at on the index.
    """
    at = lowering.machine.at(cell)
    inputs: dict[str, Input] = {}
    installed: dict[str, Input] = {}
    if provided := lower_provided.provided(lowering, cell, host):
        inputs["provided"] = provided
        installed = lower_test.installed(lowering, cell, wheel) if test else {}
    action = Action(
        id=f"{cell.id}/audit",
        kind="audit",
        title=f"audit the wheel of {cell.id}",
        argv=lowering.step(
            "audit_wheel",
            wheel="${in:wheel}",
            manifest="${in:manifest}",
            cuda=cell.cuda,
            archs=",".join(lowering.file.narrowed) or None,
            provided="${in:provided}" if provided else None,
            installed=[f"${{in:{name}}}" for name in installed],
            report="${out:report.json}",
        ),
        inputs={
            "gpuforge": lowering.itself("audit_wheel", at),
            "wheel": wheel,
            "manifest": FileInput(lowering.file.path, lowering.file.digest),
            **inputs,
            **installed,
        },
        outputs=("report.json",),
        by_content=True,
        env=environment.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=(cell.id,),
    )
    return ActionInput(lowering.add(action), "report.json")
