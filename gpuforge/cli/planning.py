"""Makes a plan from the options that choose cells: `build` runs it, `matrix` writes it for a CI system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuforge.cli.options import Choice
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan.architectures import spelled_out
from gpuforge.plan.cell import Selection, select
from gpuforge.plan.lower.cell_actions import Plan, lower
from gpuforge.plan.narrow import narrow
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import resolve

DEFAULT_IMAGE = "manylinux_2_28"


@dataclass(frozen=True, slots=True)
class Planned:
    """A manifest, the chosen cells of it, and their plan."""

    file: ManifestFile
    selection: Selection
    sites: Sequence[ContainerImage]
    plan: Plan


def planned(
    choice: Choice,
    machine: str,
    sites: Callable[[ManifestFile], Sequence[ContainerImage]],
    *,
    test: bool = True,
    gpu: bool = False,
    allow_missing: bool = False,
) -> Planned:
    """Plan the chosen cells for a machine type; `sites` are the images to build in, none for this machine itself.

    A chosen toolkit or Python that is missing is an error, unless `allow_missing`.

    Raises UsageError and MissingError for everything that `gpuforge build` refuses before it runs an action.
    """
    file = narrow(spelled_out(load(choice.path)), choice.archs)
    selection = select(
        file, machine, cuda=choice.cuda, python=choice.python, axis=choice.axis, cell=choice.cell
    )
    places = sites(file)
    requested = [
        name
        for name, given in (("cuda", choice.cuda or choice.cell), ("python", choice.python or choice.cell))
        if given and not allow_missing
    ]
    found, selection = resolve(file, selection, requested=requested, sites=places)
    return Planned(file, selection, places, lower(file, selection.cells, found, test=test, gpu=gpu))
