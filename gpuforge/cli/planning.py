"""Makes a plan from the options that choose cells, and reports the cells that are left out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuforge.actions.cell_actions import Plan, lower
from gpuforge.cli.terminal import say
from gpuforge.errors import MissingError
from gpuforge.grouping import grouped
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan.cell import Choice, LeftOut, LeftOutReason, Selection, narrow, select
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import resolve

DEFAULT_IMAGE = "manylinux_2_28"


class Planned(NamedTuple):
    """A manifest, the chosen cells of it, and their plan."""

    file: ManifestFile
    selection: Selection
    sites: Sequence[ContainerImage]
    plan: Plan


def planned(
    path: Path,
    choice: Choice,
    machine: str,
    sites: Callable[[ManifestFile], Sequence[ContainerImage]],
    environ: Mapping[str, str],
    *,
    test: bool = True,
    gpu: bool = False,
) -> Planned:
    """Plan the chosen cells for a machine type; `sites` are the images to build in, none for this machine itself.

    Raises UsageError and MissingError for everything that `gpuforge build` refuses before it runs an action.
    """
    file = narrow(load(path), choice.archs)
    selection = select(file, machine, choice)
    images = sites(file)
    found, selection = resolve(file, selection, images)
    return Planned(file, selection, images, lower(file, selection.cells, found, environ, test=test, gpu=gpu))


def reason_text(reason: LeftOutReason) -> str:
    """Return the reason in one line."""
    facts = reason.facts
    if reason.kind == "missing":
        return "; ".join(facts["problems"])
    text = f"not selected by {facts['option'][0]} {','.join(facts['values'])}"
    return f"{text}: [cuda.{facts['cuda'][0]}] has {', '.join(facts['archs'])}" if "archs" in facts else text


def left_out_data(left_out: Iterable[LeftOut]) -> list[dict[str, str]]:
    """Return each omitted cell with the reason, as plain data."""
    return [
        {"cell": item.cell.id, "kind": item.reason.kind, "reason": reason_text(item.reason)}
        for item in left_out
    ]


def left_out_by_reason(left_out: Iterable[LeftOut]) -> dict[str, list[str]]:
    """Return the ids of the cells by the reason."""
    return grouped((reason_text(item.reason), item.cell.id) for item in left_out)


def missing_status(selection: Selection, *, allowed: bool) -> int:
    """Return 3 if cells are missing that were not allowed to be, and print what to do; else 0."""
    missing = selection.missing
    if allowed or not missing:
        return 0
    for hint in dict.fromkeys(hint for item in missing for hint in item.reason.facts["hints"]):
        say(f"hint: {hint}")
    cells = "1 cell is" if len(missing) == 1 else f"{len(missing)} cells are"
    pythons = dict.fromkeys(cell.python for cell in selection.cells)
    whole = pythons and not any(item.cell.python in pythons for item in missing)
    way = f"--python {','.join(pythons)}, or --allow-missing," if whole else "--allow-missing"
    say(f"{cells} left out, so the exit status is {MissingError.exit_code}; {way} makes it 0")
    return MissingError.exit_code
