"""The packages that a wheel's CUDA libraries come from: looked up on the index before the wheel is made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from packaging.requirements import Requirement

from gpuforge.actions.toolkit import toolkit
from gpuforge.cuda.provided import CudaNeeds, Provided
from gpuforge.cuda.version import major_of
from gpuforge.plan import variables
from gpuforge.plan.action import ActionInput, Handle, ImageInput, P, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext


@dataclass(frozen=True, kw_only=True)
class WheelLinks(Step[P]):
    """Find the symbols that a wheel and its kernel libraries use of CUDA's packages.

    Its output changes less often than the wheel.
    """

    wheel: P  # the wheel, or a folder with nothing else
    kernels: tuple[P, ...] = ()  # libraries that go into it
    toolkit: P | None = None
    cuda: str  # the toolkit: "13.0"
    machine: str  # type, as in `[wheel] machines`
    pins: Mapping[str, str] = field(default_factory=dict)  # versions of the toolkit's pip packages
    pins_file: str = ""  # a file of the toolkit with more of them

    def run(self: WheelLinks[Path], at: Workdir) -> None:
        """Write the `CudaNeeds` of the wheel.

        Lines of the project for other systems, for some Pythons and for extras are left out.
        """
        from gpuforge.actions import value_file, wheelhouse
        from gpuforge.package import links
        from gpuforge.wheel import metadata, unpacked

        tree = at.scratch / "tree"
        unpacked.unpack(wheelhouse.one_wheel(self.wheel), tree)
        own = metadata.requirements(metadata.of_file(unpacked.dist_info(tree) / "METADATA"))
        for number, folder in enumerate(self.kernels):
            shutil.copytree(folder, tree / f"kernels{number}")
        needed = links.needed_of(tree, self.cuda, links.all_pins(self.pins, self.toolkit, self.pins_file))
        always = [str(line) for line in own if metadata.always_holds(line.marker, self.machine)]
        value_file.write(CudaNeeds(needed, tuple(always)), at.output("links.json"))
        print(f"CUDA libraries are needed from: {', '.join(sorted(needed)) or 'none'}")


@dataclass(frozen=True, kw_only=True)
class FetchProvided(Step[P]):
    """Look on the index at the packages of the libraries in `links`, as `WheelLinks` wrote it."""

    packages: ClassVar = ("pypi-simple",)
    links: P
    cuda: str
    machine: str

    def run(self: FetchProvided[Path], at: Workdir) -> None:
        """Write what the packages have `Provided` of the `CudaNeeds`."""
        from gpuforge.actions import value_file
        from gpuforge.actions.provided_search import PackageIndex, Search
        from gpuforge.cache_folder import cache_folder

        needs = value_file.read(CudaNeeds, self.links)
        found = Provided()
        if needs.symbols:
            index = PackageIndex(cache_folder(os.environ) / "linkage", self.machine)
            own = map(Requirement, needs.requires)
            found = Search(index, major_of(self.cuda), own, self.machine).run(needs.symbols)
        else:
            print("the wheel needs no library of a CUDA package")
        for floor in found.floors:
            print(f"{floor.package} {floor.version}")
        value_file.write(found, at.output("provided.json"))


def provided(
    context: PlanContext, cell: Cell, host: ActionInput, libraries: Sequence[ActionInput]
) -> ActionInput | None:
    """Look up the packages of the libraries that a wheel needs; None if no package is required for them.

    The wheel is that of the host build, with the kernel sets that are `libraries`. A wheel with
    the same libraries and symbols shares the result.
    """
    if context.file.manifest.cuda.linkage != "pip" or not cell.cuda:
        return None
    links = _links(context, cell, host, libraries)
    return context.add_step(
        FetchProvided[Handle](links=links, cuda=cell.toolkit, machine=cell.machine),
        None,
        id=f"{cell.build_id}/provided",
        kind="fetch",
        title=f"read what the CUDA packages of {cell.build_id} provide and require",
        outputs=("provided.json",),
        facts=context.by_pip["facts"],
        env=variables.fetch(),
        passes=variables.index_passes(context.environ),
    )


def _links(
    context: PlanContext, cell: Cell, host: ActionInput, libraries: Sequence[ActionInput]
) -> ActionInput:
    at = context.machine.at(cell)
    found = at.toolkits[cell.cuda]
    its_toolkit = toolkit(context, cell, at) if found.packages_file else None
    step = WheelLinks[Handle](
        wheel=host,
        kernels=tuple(libraries),
        toolkit=its_toolkit,
        machine=cell.machine,
        cuda=cell.toolkit,
        pins=found.packages,
        pins_file=found.packages_file,
    )
    return context.add_step(
        step,
        at if isinstance(its_toolkit, ImageInput) else None,
        id=f"{cell.build_id}/links",
        kind="package",
        title=f"find the CUDA libraries that {cell.build_id} needs",
        outputs=("links.json",),
    )
