"""The audit of a finished wheel as actions: with what its requirements bring, and what it must live beside."""

from __future__ import annotations

import re

from packaging.requirements import Requirement

from gpuforge.plan import variables
from gpuforge.plan.action import Action, ActionInput, FileInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower import provided as lower_provided
from gpuforge.plan.lower import testing as lower_test
from gpuforge.plan.lower.testing import Lowering

_MAJOR = r"cu(?:da)?-?(1\d)(?!\d)"  # in the name of a project or an extra


def audit(
    lowering: Lowering, cell: Cell, wheel: ActionInput, host: ActionInput, *, test: bool
) -> ActionInput:
    """Prove the finished wheel against the manifest; an error finding fails the cell.

    With `test`, what the test installs is followed, too, as far as it is not what was looked at on the index.
    """
    at = lowering.machine.at(cell)
    inputs: dict[str, Input] = {}
    installed: dict[str, Input] = {}
    own = lowering.apart.get(cell.id)
    if not own and (provided := lower_provided.provided(lowering, cell, host)):
        inputs["provided"] = provided
        installed = lower_test.installed(lowering, cell, wheel) if test else {}
    beside = _beside(lowering, cell, wheel)
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
            provided="${in:provided}" if "provided" in inputs else None,
            kernels="${in:kernels}" if own else None,
            kernels_report="${out:kernels.json}" if own else None,
            installed=[f"${{in:{name}}}" for name in installed],
            beside=[f"${{in:{name}}}" for name in beside],
            report="${out:report.json}",
        ),
        inputs={
            "gpuforge": lowering.itself("audit_wheel", at),
            "wheel": wheel,
            "manifest": FileInput(lowering.file.path, lowering.file.digest),
            **({"kernels": own} if own else {}),
            **inputs,
            **installed,
            **beside,
        },
        outputs=("report.json", "kernels.json") if own else ("report.json",),
        by_content=True,
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=(cell.id,),
    )
    return ActionInput(lowering.add(action), "report.json")


def _beside(lowering: Lowering, cell: Cell, wheel: ActionInput) -> dict[str, Input]:
    """Fetch what `[audit] beside` names, each resolved together with the wheel."""
    manifest, at = lowering.file.manifest, lowering.machine.tested_at(cell)
    major = int(cell.toolkit.partition(".")[0])
    wanted = [text for text in manifest.audit.beside if is_for(text, major)]
    own = lower_test.declared_kernels(lowering, cell)
    found: dict[str, Input] = {}
    for number, requirement in enumerate(wanted):
        action = Action(
            id=f"{cell.id}/beside/{number}",
            kind="fetch",
            title=f"fetch what {cell.id} must live beside: {requirement}",
            argv=lowering.step(
                "fetch_beside",
                beside=requirement,
                wheel="${in:wheel}",
                extra=lower_test.extras(lowering.file, cell),
                own="${in:kernels}" if own else None,
                python="${in:python}",
                scratch="${work}",
                output="${out:wheels}",
            ),
            inputs={
                "gpuforge": lowering.itself("fetch_beside", at),
                "wheel": ActionInput(wheel.action, "declared"),
                "python": lowering.python(cell, at),
                **({"kernels": own} if own else {}),
            },
            outputs=("wheels",),
            by_content=True,
            facts=lowering.pip_facts,
            env=variables.fetch() | {"PATH": at.path},
            passes=variables.requirement_passes(),
            network=True,
            caches=variables.PIP_CACHE,
            image=at.image_id,
            cells=(cell.id,),
        )
        found[f"beside{number}"] = ActionInput(lowering.add(action), "wheels")
    return found


def is_for(requirement: str, major: int) -> bool:
    """Say whether a requirement is for a CUDA major, or for any: jax[cuda12] and cupy-cuda12x are not for 13."""
    parsed = Requirement(requirement)
    found = [match[1] for text in (parsed.name, *parsed.extras) if (match := re.search(_MAJOR, text))]
    return not found or str(major) in found
