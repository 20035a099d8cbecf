"""The CUDA toolkit of a cell: a folder of this machine or of the image, or fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gpuforge.plan import variables
from gpuforge.plan.action import FileInput, Handle, ImageInput, Input, P, Step, Workdir
from gpuforge.plan.cell import Cell
from gpuforge.plan.context import PlanContext
from gpuforge.plan.site import Location
from gpuforge.toolkits.toolkit import ToolkitFiles


@dataclass(frozen=True, kw_only=True)
class FetchToolkit(Step[P]):
    """Assemble a toolkit from the files of `source`, which the provider of this name offered."""

    provider: str
    source: ToolkitFiles

    def code(self) -> tuple[str, ...]:
        """Return the module of the provider."""
        return (f"gpuforge.toolkits.providers.{self.provider}",)

    def run(self: FetchToolkit[Path], at: Workdir) -> None:
        """Make the toolkit's folder."""
        from functools import partial

        from gpuforge.toolkits.providers import fetchers

        fetchers()[self.provider].fetch(self.source, at.output("toolkit"), say=partial(print, flush=True))


def toolkit(context: PlanContext, cell: Cell, at: Location) -> Input:
    """Return the toolkit of a cell."""
    found = at.toolkits[cell.cuda]
    if found.provider == "image":
        return ImageInput(PurePosixPath(str(found.root)), found.identity)
    if found.root is not None:
        return FileInput(found.root, found.identity, program="toolkit")
    assert found.source is not None  # noqa: S101  a toolkit without a folder is fetched
    size = f" ({found.size / 1e6:.0f} MB)" if found.size else ""
    return context.add_step(
        FetchToolkit[Handle](provider=found.provider, source=found.source),
        None,
        id=f"cu{cell.toolkit}{(other := context.machine.suffix(at.machine))}/toolkit",
        kind="fetch",
        title=f"fetch CUDA {cell.toolkit}{other and f' for {at.machine}'} from {found.origin}{size}",
        outputs=("toolkit",),
        facts={"toolkit": found.identity, "provider": found.provider},
        env=variables.fetch(),
        passes=variables.fetch_passes(context.environ),
    )
