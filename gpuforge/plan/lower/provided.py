"""What a wheel's requirements really bring, as an action: found out on the index, before the wheel is made."""

from __future__ import annotations

import json

from gpuforge.plan import programs, variables
from gpuforge.plan.action import Action, ActionInput
from gpuforge.plan.cell import Cell
from gpuforge.plan.lower.testing import Lowering
from gpuforge.toolkits import redist


def provided(lowering: Lowering, cell: Cell, host: ActionInput) -> ActionInput | None:
    """Look at the packages of the libraries that a wheel needs; None where no package is required for them.

    The wheel is that of the host build, with the kernel sets that are libraries. The same libraries and symbols need no
    second look, whatever else it holds.
    """
    if lowering.file.manifest.cuda.linkage != "pip":
        return None
    name = cell.id.removesuffix(f"-{cell.naming}")
    action = Action(
        id=f"{name}/provided",
        kind="fetch",
        title=f"look at what the CUDA packages of {name} have and need",
        argv=lowering.step(
            "fetch_provided",
            links="${in:links}",
            cuda=cell.toolkit,
            machine=cell.machine,
            output="${out:provided.json}",
        ),
        inputs={"gpuforge": programs.itself("fetch_provided"), "links": _links(lowering, cell, name, host)},
        outputs=("provided.json",),
        by_content=True,
        facts=lowering.pip_facts,
        env=variables.fetch(),
        passes=variables.index_passes(),
        network=True,
        cells=lowering.users(cuda=cell.cuda, python=cell.python),
    )
    return ActionInput(lowering.add(action), "provided.json")


def _links(lowering: Lowering, cell: Cell, name: str, host: ActionInput) -> ActionInput:
    libraries = {f"kernels{n}": each for n, each in enumerate(lowering.kernel_libraries(cell))}
    at = lowering.machine.at(cell)
    toolkit = at.toolkits[cell.cuda]
    archives = {"toolkit": lowering.toolkit(cell, at)} if toolkit.archives else {}
    action = Action(
        id=f"{name}/links",
        kind="package",
        title=f"see what {name} wants of CUDA's libraries",
        argv=lowering.step(
            "wheel_links",
            wheel="${in:wheel}",
            kernels=[f"${{in:{each}}}" for each in libraries],
            cuda=cell.toolkit,
            pins=json.dumps({pin.package: pin.version for pin in toolkit.pins}, sort_keys=True),
            pins_file=f"${{in:toolkit}}/{redist.VERSIONS}" if archives else None,
            scratch="${work}",
            output="${out:links.json}",
        ),
        inputs={"gpuforge": lowering.itself("wheel_links", at), "wheel": host, **libraries, **archives},
        outputs=("links.json",),
        by_content=True,
        env=variables.plain() | {"PATH": at.path},
        image=at.image_id,
        cells=lowering.users(cuda=cell.cuda, python=cell.python),
    )
    return ActionInput(lowering.add(action), "links.json")
