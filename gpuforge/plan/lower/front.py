"""The front package and its audit, once for all cells."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name

from gpuforge.cuda.suffix import named_for
from gpuforge.cuda.version import major_of
from gpuforge.embedded.major_wheels import FrontExtra
from gpuforge.expectation import Expectation
from gpuforge.manifest.kernels_wheels import extra_for, toolkits
from gpuforge.manifest.model import Manifest
from gpuforge.plan.action import ActionInput
from gpuforge.plan.lower.plan_context import PlanContext, placeholders
from gpuforge.plan.requests.audit import AuditWheel
from gpuforge.plan.requests.wheel import PackageFront


def front_package(context: PlanContext) -> tuple[ActionInput, ActionInput] | None:
    """Return the front package and the report of its audit; None if the manifest has none.

    It is made from the metadata of one wheel for each chosen CUDA version.
    """
    manifest = context.file.manifest
    named = [cell for cell in context.cells if cell.naming == "suffix"]
    if not manifest.wheel.front or not named:
        return None
    first = {cell.cuda: cell for cell in reversed(named)}
    of = {
        f"of{n}": ActionInput(f"{cell.id}/wheel", "declared")
        for n, (_, cell) in enumerate(sorted(first.items()))
    }
    users = tuple(cell.id for cell in context.cells)
    at = context.machine.at(named[0])
    made = context.add_step(
        PackageFront(
            of=placeholders(of),
            distribution=manifest.wheel.front,
            brought=brought(manifest),
            work=Path("${work}"),
            output=Path("${out:wheel}"),
        ),
        at,
        id="front/wheel",
        kind="package",
        title=f"make {manifest.wheel.front}",
        inputs=of,
        outputs=("wheel",),
        by_content=True,
        cells=users,
    )
    report = context.add_step(
        AuditWheel(
            wheel=Path("${in:wheel}"),
            expectation=Expectation(no_code=True),
            report=Path("${out:report.json}"),
        ),
        at,
        id="front/audit",
        kind="audit",
        title=f"audit {manifest.wheel.front}",
        inputs={"wheel": made},
        outputs=("report.json",),
        by_content=True,
        cells=users,
    )
    return made, report


def brought(manifest: Manifest) -> tuple[FrontExtra, ...]:
    """Return the extras of the front package, for every CUDA major of the manifest, the oldest first."""
    found = []
    for toolkit in reversed(toolkits(manifest)):
        distribution = named_for(canonicalize_name(manifest.package.name), major_of(toolkit))
        extra = extra_for(toolkit)
        if manifest.cuda.linkage == "pip" and manifest.cuda.requires == "extra":
            found += [FrontExtra(each, distribution, each) for each in (extra, f"{extra}-local")]
        else:
            found.append(FrontExtra(extra, distribution))
    return tuple(dict.fromkeys(found))
