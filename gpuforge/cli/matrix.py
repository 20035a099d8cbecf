"""`gpuforge matrix`: the cells of a manifest, in the form that a CI system reads."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpuforge.cli.options import selection
from gpuforge.cli.terminal import say
from gpuforge.containers import catalog
from gpuforge.manifest.load import ManifestFile, load
from gpuforge.plan.cell import Cell, LeftOut, Selection, select
from gpuforge.plan.machine import impossible, machine_type
from gpuforge.plan.narrow import narrow
from gpuforge.plan.site import ThisMachine

# https://docs.github.com/actions/reference/runners/github-hosted-runners
# https://docs.gitlab.com/ci/runners/hosted_runners/linux
RUNNERS = {
    "github": {"x86_64": "ubuntu-24.04", "aarch64": "ubuntu-24.04-arm"},
    "gitlab": {"x86_64": "saas-linux-medium-amd64", "aarch64": "saas-linux-medium-arm64"},
}
DEFAULT_IMAGE = {"github": None, "gitlab": "manylinux_2_28"}  # a GitLab job always has one
# Where images named by a manylinux policy are: https://github.com/pypa/manylinux#docker-images
MANYLINUX = "quay.io/pypa/{policy}_{machine}"
# https://docs.github.com/actions/reference/limits and https://docs.gitlab.com/ci/yaml/#parallelmatrix
MOST_JOBS = {"github": 256, "gitlab": 200}


@click.command("matrix")
@selection
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "github", "gitlab", "json"]),
    default="table",
    show_default=True,
    help="github: one line for fromJSON; gitlab: a job to extend; json: with what is left out and why.",
)
def command(
    path: Path,
    cuda: tuple[str, ...],
    python: tuple[str, ...],
    archs: tuple[str, ...],
    cell: str | None,
    form: str,
) -> None:
    """Print the cells of the manifest in PATH (default: here), each with what a CI job needs to build it."""
    file = narrow(load(path), archs)
    chosen = possible(file, select(file, machine_type(), cuda=cuda, python=python, cell=cell))
    jobs = [job(file, path, item, "gitlab" if form == "gitlab" else "github") for item in chosen.cells]
    if form == "table":
        table(jobs, chosen)
        return
    if form == "json":
        left_out = [{"cell": item.cell.id, "reason": item.reason} for item in chosen.left_out]
        click.echo(json.dumps({"schema": 1, "cells": jobs, "left_out": left_out}, indent=2))
        return
    for reason, cells in by_reason(chosen.left_out).items():
        say(f"left out: {reason}: {', '.join(cells)}")
    if len(jobs) > MOST_JOBS[form]:
        most = MOST_JOBS[form]
        say(
            f"warning: {len(jobs)} jobs, but {form} runs at most {most} of one matrix: use --cuda or --python"
        )
    click.echo(github(jobs) if form == "github" else gitlab(jobs))


def possible(file: ManifestFile, chosen: Selection) -> Selection:
    """Leave out the cells whose toolkit cannot compile for what the manifest asks, with the reason."""
    reasons: dict[str, str] = {}
    for name in {item.cuda for item in chosen.cells}:
        for problem in impossible(file, name, None, ThisMachine()):
            reasons.setdefault(name, problem.message)
    left_out = [LeftOut(item, reasons[item.cuda]) for item in chosen.cells if item.cuda in reasons]
    cells = tuple(item for item in chosen.cells if item.cuda not in reasons)
    return Selection(cells, (*chosen.left_out, *left_out))


def job(file: ManifestFile, path: Path, cell: Cell, system: str) -> dict[str, Any]:
    """Return what a job of a CI system ("github", "gitlab") needs for one cell."""
    folder = [] if path == Path() else [path.as_posix()]
    narrowed = ["--archs", ",".join(file.narrowed)] if file.narrowed else []
    return {
        "cell": cell.id,
        "python": cell.python,
        "cuda": cell.cuda,
        "toolkit": cell.toolkit,
        "machine": cell.machine,
        "archs": list(file.manifest.cuda.versions[cell.cuda].archs),
        "runner": RUNNERS[system].get(cell.machine, "self-hosted"),
        "image": image_of(_pullable(file) or DEFAULT_IMAGE[system], cell.machine),
        "build": shlex.join(["gpuforge", "build", *folder, "--cell", cell.id, *narrowed]),
    }


def _pullable(file: ManifestFile) -> str | None:
    """Return the first image of the manifest that a CI system can run a job in: not one that gpuforge makes."""
    names = file.manifest.wheel.image
    return next((name for name in names if not ((known := catalog.find(name)) and known.built)), None)


def image_of(image: str | None, machine: str) -> str | None:
    """Return the full reference of an image: a manylinux policy is one of PyPA's, anything else is as written."""
    if image and re.fullmatch(r"manylinux\w+", image):
        return MANYLINUX.format(policy=image, machine=machine)
    return image


def github(jobs: Sequence[dict[str, Any]]) -> str:
    """Return `{"include": […]}` on one line, as `$GITHUB_OUTPUT` and `fromJSON` want it."""
    return json.dumps({"include": jobs}, separators=(",", ":"))


def gitlab(jobs: Sequence[dict[str, Any]]) -> str:
    """Return a hidden GitLab job with `parallel: matrix`, to include and extend; variables are strings there."""
    lines = [
        ".gpuforge:",
        "  tags: [$RUNNER]",
        "  image: $IMAGE",
        "  before_script:",
        "    - export PATH=/opt/python/cp312-cp312/bin:$PATH  # where manylinux images have their Pythons",
        "    - pip install gpuforge",
        "  script: [$BUILD]",
        "  artifacts: {paths: [dist]}",
        "  parallel:",
        "    matrix:",
    ]
    for entry in jobs:
        names = ("cell", "python", "cuda", "toolkit", "machine", "runner", "image", "build")
        pairs = [f"{name.upper()}: {json.dumps(str(entry[name] or ''))}" for name in names]
        lines += [f"      - {pairs[0]}", *(f"        {pair}" for pair in pairs[1:])]
    if not jobs:
        lines[-1] += " []"
    return "\n".join(lines)


def table(jobs: Sequence[dict[str, Any]], chosen: Selection) -> None:
    """Print the cells for people, then those left out with the reason."""
    from rich.table import Table

    from gpuforge.cli.build_report import count, results_console

    console = results_console()
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("cell", "python", "CUDA", "GPU architectures", "runner"):
        shown.add_column(heading, overflow="fold", no_wrap=heading == "cell")
    for entry in jobs:
        python = "every 3.x" if entry["python"] == "3" else entry["python"]
        shown.add_row(
            entry["cell"],
            python,
            entry["toolkit"],
            " ".join(entry["archs"]),
            entry["runner"],
        )
    console.print(shown)
    if jobs:
        console.print(f"\n{count(len(jobs), 'cell')}; build one with  {jobs[0]['build']}", highlight=False)
    for reason, cells in by_reason(chosen.left_out).items():
        console.print(f"left out: {reason}: {', '.join(cells)}", style="dim", highlight=False, markup=False)


def by_reason(left_out: Sequence[LeftOut]) -> dict[str, list[str]]:
    """Return the ids of cells that are left out, gathered by the reason."""
    reasons: dict[str, list[str]] = {}
    for item in left_out:
        reasons.setdefault(item.reason, []).append(item.cell.id)
    return reasons
