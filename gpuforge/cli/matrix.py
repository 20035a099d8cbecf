"""`gpuforge matrix`: the cells of a manifest, in the form that a CI system reads."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from packaging.utils import canonicalize_name

from gpuforge.cli import ci, stores
from gpuforge.cli.arguments import errors_as_json
from gpuforge.cli.left_out import allow_missing as allow_missing_option
from gpuforge.cli.left_out import as_data, by_reason, status
from gpuforge.cli.options import Choice, images, selection
from gpuforge.cli.planning import DEFAULT_IMAGE, Planned, planned
from gpuforge.cli.terminal import say
from gpuforge.containers import catalog, expected
from gpuforge.containers.image_reference import refuse_name
from gpuforge.cuda.suffix import named_for
from gpuforge.cuda.version import major_of
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.cell import Cell, Selection
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import machine_type


@click.command("matrix")
@selection
@images
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "github", "gitlab", "json"]),
    default="table",
    show_default=True,
    help="github: one line for fromJSON; gitlab: a job to extend; json: with what is left out and why.",
)
@allow_missing_option
@click.pass_context
@errors_as_json
def command(
    ctx: click.Context,
    /,
    choice: Choice,
    images: tuple[str, ...],
    form: str,
    allow_missing: bool,
) -> None:
    """Print the cells of the manifest in PATH (default: here), each with what a CI job needs to build it.

    The jobs build in containers. This command refuses the same manifests as `gpuforge build --runner docker`, but
    fetches no image: it knows the content of the images from gpuforge's own list.
    """
    machine = machine_type()
    made = planned(choice, machine, lambda file: places(file, images, machine), allow_missing=allow_missing)
    options = [*(word for name in images for word in ("--image", name))]
    options += ["--archs", ",".join(arch.number for arch in made.file.narrowed)] if made.file.narrowed else []
    jobs = [job(made, choice.path, item, options) for item in made.selection.cells]
    _show(made.selection, jobs, form)
    ctx.exit(status(made.selection, allowed=allow_missing))


def _show(selection: Selection, jobs: Sequence[dict[str, Any]], form: str) -> None:
    if form == "table":
        table(jobs, selection)
        return
    if form == "json":
        left_out = as_data(selection.left_out)
        shown = [ci.labelled(entry, "github") for entry in jobs]
        click.echo(json.dumps({"schema": 1, "cells": shown, "left_out": left_out}, indent=2))
        return
    for reason, cells in by_reason(selection.left_out).items():
        say(f"left out: {reason}: {', '.join(cells)}")
    if len(jobs) > ci.MOST_JOBS[form]:
        most = ci.MOST_JOBS[form]
        say(
            f"warning: {len(jobs)} jobs, but {form} runs at most {most} of one matrix: use --cuda or --python"
        )
    click.echo(ci.github(jobs) if form == "github" else ci.gitlab(jobs))
    for line in stores.for_jobs():
        say(line)


def places(file: ManifestFile, images: Sequence[str], machine: str) -> list[expected.ExpectedImage]:
    """Return the known facts of the images to build in: those of --image, else the manifest's, else the default."""
    versions = file.manifest.cuda.versions.values()
    own = [version.toolkit for version in versions if version.provider == "image"]
    names, test = images or file.manifest.wheel.image or [DEFAULT_IMAGE], file.manifest.test.image or True
    for name in (*names, test):
        if isinstance(name, str) and catalog.find(name, machine) is None:
            refuse_name(name, [known.name for known in catalog.images(machine)])
    return [expected.image(name, machine, test=test, toolkits=own) for name in names]


def job(made: Planned, path: Path, cell: Cell, options: Sequence[str]) -> dict[str, Any]:
    """Return the fields of one cell's job for any CI system; `options` are those of the matrix that the build gets."""
    machine = made.plan.machine
    at, (host_at, _), host = machine.at(cell), machine.host_at(cell), machine.at(cell).hosts[cell.cuda]
    used = [machine.kernels_at(cell.cuda).image, at.image, host_at.image, machine.tested_at(cell).image]
    used += [at.image.test] if at.image else []  # a build has it already, even if it lacks the cell's Python
    folder = [] if path == Path() else [path.as_posix()]
    build = ["gpuforge", "build", *folder, "--cell", cell.id, "--runner", "docker", *options]
    return {
        "cell": cell.id,
        "python": cell.python,
        "cuda": cell.cuda or None,
        "toolkit": cell.toolkit or None,
        **({"axes": dict(cell.axes)} if cell.axes else {}),
        "machine": cell.machine,
        "distributions": distributions(made.file, cell),
        "archs": list(made.file.manifest.cuda.versions[cell.cuda].archs) if cell.cuda else [],
        "image": at.image_id,
        "compiler": described(at.image, host.family, host.version.major),
        "prepare": shlex.join(to_build(used)),
        "build": shlex.join(build),
    }


def distributions(file: ManifestFile, cell: Cell) -> list[str]:
    """Return the distributions of the wheels that a cell's job makes: two if kernels have their own."""
    manifest = file.at(cell.point).manifest
    name = canonicalize_name(manifest.package.name)
    if kernels_wheels.is_split(manifest):
        return [name, kernels_wheels.distribution(manifest, cell.toolkit)]
    return [named_for(name, major_of(cell.toolkit)) if cell.naming == "suffix" else name]


def described(image: ContainerImage | None, family: str, major: int) -> str | None:
    """Return the host compiler that nvcc gets ("g++ 12"); None if the image's compilers are not known."""
    known = isinstance(image, expected.ExpectedImage) and image.compilers is not None
    return f"{family} {major}" if known else None


def to_build(images: Sequence[ContainerImage | None]) -> list[str]:
    """Return the command that makes the images that no registry has; empty if all of them are pulled."""
    made = [image.name for image in images if image and (known := catalog.find(image.name)) and known.built]
    return ["gpuforge", "images", "build", *dict.fromkeys(made)] if made else []


def table(jobs: Sequence[dict[str, Any]], chosen: Selection) -> None:
    """Print the cells for people, then the omitted ones with the reason."""
    from rich.table import Table

    from gpuforge.cli.console import count, results_console

    console = results_console()
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("cell", "python", "CUDA", "GPU architectures", "compiler"):
        shown.add_column(heading, overflow="fold", no_wrap=heading == "cell")
    for entry in jobs:
        python = "every 3.x" if entry["python"] == "3" else entry["python"]
        shown.add_row(
            entry["cell"],
            python,
            entry["toolkit"] or "none",
            " ".join(entry["archs"]),
            entry["compiler"] or "the image's",
        )
    console.print(shown)
    if jobs:
        console.print(f"\n{count(len(jobs), 'cell')}; build one with", highlight=False)
        for word in filter(None, (jobs[0]["prepare"], jobs[0]["build"])):
            console.print(f"  {word}", highlight=False, markup=False, soft_wrap=True)
    for reason, cells in by_reason(chosen.left_out).items():
        text = f"left out: {reason}: {', '.join(cells)}"
        console.print(text, style="dim", highlight=False, markup=False)
