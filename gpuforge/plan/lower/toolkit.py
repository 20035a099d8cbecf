"""The CUDA toolkit of a cell: a folder of this machine or of the image, or fetched."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from gpuforge.plan import variables
from gpuforge.plan.action import FileInput, ImageInput, Input
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.plan_context import PlanContext
from gpuforge.plan.requests.toolkit import FetchToolkit
from gpuforge.plan.site import Location


def toolkit(context: PlanContext, cell: Cell, at: Location) -> Input:
    """Return the toolkit of a cell."""
    found = at.toolkits[cell.cuda]
    if found.provider == "image":
        return ImageInput(PurePosixPath(str(found.root)), found.identity)
    if found.root is not None:
        return FileInput(found.root, found.identity, program="toolkit")
    assert found.source is not None  # noqa: S101  a toolkit without a folder is fetched
    size = f" ({found.size / 1e6:.0f} MB)" if found.size else ""
    return context.add_request(
        FetchToolkit(provider=found.provider, source=found.source, output=Path("${out:toolkit}")),
        None,
        code=f"{FetchToolkit.program} {found.provider}",
        id=f"cu{cell.toolkit}/toolkit",
        kind="fetch",
        title=f"fetch CUDA {cell.toolkit} from {found.origin}{size}",
        outputs=("toolkit",),
        facts={"toolkit": found.identity, "provider": found.provider},
        env=variables.fetch(),
        passes=variables.fetch_passes(context.environ),
        network=True,
        cells=context.users(cuda=cell.cuda),
    )
