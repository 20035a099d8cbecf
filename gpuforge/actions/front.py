"""The front package, whose extras install the wheels of the CUDA majors, and its audit, once for all cells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from packaging.utils import canonicalize_name

from gpuforge import disk
from gpuforge.actions.audit import AuditWheel
from gpuforge.cuda.suffix import named_for
from gpuforge.cuda.version import major_of
from gpuforge.expectation import Expectation
from gpuforge.manifest.kernels_wheels import extra_for, toolkits
from gpuforge.manifest.model import Manifest
from gpuforge.package.contents import FrontExtra
from gpuforge.plan.action import ActionInput, Handle, P, Step, Workdir
from gpuforge.plan.context import PlanContext


@dataclass(frozen=True, kw_only=True)
class PackageFront(Step[P]):
    """Make the front package."""

    writes_wheel: ClassVar = True
    of: tuple[P, ...]  # for each CUDA version a wheel of its metadata, or its folder
    distribution: str
    brought: tuple[FrontExtra, ...]

    def run(self: PackageFront[Path], at: Workdir) -> None:
        """Write the wheel."""
        from gpuforge.actions.wheelhouse import one_wheel
        from gpuforge.actions.write_wheel import write
        from gpuforge.package import kernels_wheel
        from gpuforge.wheel import metadata

        wheels = [metadata.of_wheel(one_wheel(folder)) for folder in self.of]
        kernels_wheel.check_front(wheels, self.brought)
        with disk.errors_at(at.scratch), TemporaryDirectory(dir=at.scratch) as scratch:
            tree = Path(scratch) / "tree"
            name = kernels_wheel.lay_out_front(tree, self.distribution, wheels[0], self.brought)
            made = write(tree, at.output("wheel") / str(name), None)
        print(f"{made.name}: {made.stat().st_size} bytes")


def front_package(context: PlanContext) -> tuple[ActionInput, ActionInput] | None:
    """Return the front package and the report of its audit; None if the manifest has none.

    It is made from the metadata of one wheel for each chosen CUDA version.
    """
    manifest = context.file.manifest
    named = [cell for cell in context.cells if cell.naming == "suffix"]
    if not manifest.wheel.front or not named:
        return None
    first = {cell.cuda: cell for cell in reversed(named)}
    of = tuple(ActionInput(f"{cell.id}/wheel", "declared") for _, cell in sorted(first.items()))
    at = context.machine.at(named[0])
    made = context.add_step(
        PackageFront[Handle](of=of, distribution=manifest.wheel.front, brought=brought(manifest)),
        at,
        id="front/wheel",
        kind="package",
        title=f"make {manifest.wheel.front}",
        outputs=("wheel",),
    )
    report = context.add_step(
        AuditWheel[Handle](wheel=made, expectation=Expectation(no_code=True)),
        at,
        id="front/audit",
        kind="audit",
        title=f"audit {manifest.wheel.front}",
        outputs=("report.json",),
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
