"""`gpuforge matrix`: the cells of a manifest, and the tests of `[test.matrix]`, in the form that a CI system reads."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import click
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuforge.actions import trial
from gpuforge.cli.folders import address
from gpuforge.cli.options import Call, allow_missing, errors_as_json, images, pass_call, selection
from gpuforge.cli.planning import (
    DEFAULT_IMAGE,
    Planned,
    left_out_by_reason,
    left_out_data,
    missing_status,
    planned,
)
from gpuforge.cli.terminal import count, result, results_console, say
from gpuforge.cluster.objects import VARIABLE, hidden
from gpuforge.containers import catalog, expected
from gpuforge.containers.image_reference import refuse_name
from gpuforge.cpython import CPython
from gpuforge.cuda import releases
from gpuforge.cuda.suffix import named_for
from gpuforge.cuda.version import major_of
from gpuforge.errors import UsageError
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.axes import Point
from gpuforge.manifest.load import FILE_NAME, ManifestFile, load
from gpuforge.manifest.model import GpuRunner
from gpuforge.plan.cell import Cell, Choice, Selection, matrix
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import machine_type
from gpuforge.toolchains import sccache
from gpuforge.toolchains.inventory import OLDEST

# https://docs.github.com/actions/reference/runners/github-hosted-runners
# https://docs.gitlab.com/ci/runners/hosted_runners/linux
RUNNERS = {
    "github": {"x86_64": "ubuntu-24.04", "aarch64": "ubuntu-24.04-arm"},
    "gitlab": {"x86_64": "saas-linux-medium-amd64", "aarch64": "saas-linux-medium-arm64"},
}
# https://docs.github.com/actions/reference/limits and https://docs.gitlab.com/ci/yaml/#parallelmatrix
MOST_JOBS = {"github": 256, "gitlab": 200}
_BUCKETS = ("SCCACHE_BUCKET", "SCCACHE_GCS_BUCKET")
_PUBLIC = (
    "_BUCKET", "_ENDPOINT", "_ENDPOINTS", "_REGION", "_KEY_PREFIX", "_USE_SSL", "_RW_MODE", "_CACHE_SIZE", "_DB",
)  # fmt: skip


def labelled(job: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return a job with the runner's label in a CI system ("github", "gitlab"), unless it names its own."""
    first, label = next(iter(job)), RUNNERS[system].get(job["machine"], "self-hosted")
    return {name: {"runner": label, **job}[name] for name in (first, "runner", *job)}


def github(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return `{"include": […]}` on one line, for `$GITHUB_OUTPUT` and `fromJSON`."""
    return json.dumps({"include": [labelled(job, "github") for job in jobs]}, separators=(",", ":"))


def gitlab(jobs: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return a hidden GitLab job with `parallel: matrix`, to include and extend; its variables are strings.

    It begins as the file `name` of `workflows` says. A job's own container requests others from the engine of a
    service, and they see only the project's folder:
    https://docs.gitlab.com/ci/docker/using_docker_build/#docker-in-docker-with-tls-enabled-in-the-docker-executor
    """
    lines = resources.files(__package__).joinpath("workflows", name).read_text().splitlines()
    for entry in jobs:
        pairs = [
            f"{name.upper()}: {json.dumps(_variable_text(value))}"
            for name, value in labelled(entry, "gitlab").items()
        ]
        lines += [f"      - {pairs[0]}", *(f"        {pair}" for pair in pairs[1:])]
    if not jobs:
        lines[-1] += " []"
    return "\n".join(lines)


def _variable_text(value: str | Sequence[str] | Mapping[str, str] | None) -> str:
    """Return a value as a variable: lists and the pairs of tables are separated by spaces, None is empty."""
    if isinstance(value, Mapping):
        value = [f"{name}={each}" for name, each in value.items()]
    return value if isinstance(value, str) else " ".join(value or ())


@click.command("matrix")
@selection
@images
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "github", "gitlab", "json"]),
    default="table",
    callback=errors_as_json,
    help="github: one line for fromJSON; gitlab: a job to extend; json: with what is left out and why.",
)
@click.option(
    "--tests",
    is_flag=True,
    help="Print the jobs of [test.matrix], which test the built wheels, instead. gitlab and json have both.",
)
@click.option(
    "--event",
    type=click.Choice(["release", "pull-request"]),
    default="release",
    help="pull-request: one wheel for each CUDA and machine type, of the newest Python, and its first test.",
)
@allow_missing
@pass_call
def command(
    call: Call,
    /,
    *,
    path: Path,
    images: tuple[str, ...],
    form: str,
    tests: bool,
    event: str,
    **chosen: Any,
) -> int:
    """Print the cells of the manifest in PATH (default: here), each with what a CI job needs to build it.

    The jobs build in containers. This command refuses the same manifests as `gpuforge build --runner docker`, but
    fetches no image: it knows the content of the images from gpuforge's own list.
    """
    if tests and form in {"gitlab", "json"}:
        raise click.UsageError(f"--format {form} has the builds and the tests: leave --tests out")
    choice, jobs, further = Choice(**chosen), [], []
    plans = [*_by_machine(path, choice, images, call)]
    for made in plans:
        options = [*(word for name in images for word in ("--image", name))]
        options += (
            ["--archs", ",".join(arch.number for arch in made.file.narrowed)] if made.file.narrowed else []
        )
        reduced, cells = event == "pull-request", made.selection.cells
        cells = tuple({cell.cuda: cell for cell in cells}.values()) if reduced else cells
        jobs += [job(made, path, item, options) for item in cells]
        wheels = {each["cell"]: each["distributions"][0] for each in jobs}
        further += test_jobs(made, path, cells, wheels, reduced=reduced)
    selection = Selection(
        tuple(cell for made in plans for cell in made.selection.cells),
        tuple(item for made in plans for item in made.selection.left_out),
    )
    if form == "table" and tests:
        table_of_tests(further)
    elif form == "table":
        table(jobs, selection)
    elif form == "json":
        data = {
            "schema": 1,
            "cells": [labelled(each, "github") for each in jobs],
            "tests": [labelled(each, "github") for each in further],
            "left_out": left_out_data(selection.left_out),
        }
        click.echo(json.dumps(data, indent=2))
    elif form == "github":
        _warn(selection, further if tests else jobs, form)
        click.echo(github(further if tests else jobs))
    else:
        _warn(selection, jobs, form)
        _show_gitlab(jobs, further)
    for line in shared_by_jobs(call.environ) if form in MOST_JOBS and not tests else ():
        say(line)
    return missing_status(selection, allowed=choice.allow_missing)


def _by_machine(path: Path, choice: Choice, images: Sequence[str], call: Call) -> Iterator[Planned]:
    """Yield the plan of each machine type as that of a runner of this type, which builds nothing for others."""
    here = machine_type()
    every = matrix(load(path).manifest, here)
    types = dict.fromkeys(
        cell.machine
        for cell in every
        if choice.cell in {None, cell.id} and cell.machine in (choice.machine or (cell.machine,))
    )
    for machine in types or (here,):  # a choice that fits no cell is refused here
        only = replace(choice, machine=(machine,)) if types and not choice.cell else choice
        made = planned(path, only, machine, partial(places, images=images, machine=machine), call.environ)
        left_out = tuple(item for item in made.selection.left_out if item.cell.machine == machine)
        yield made._replace(selection=made.selection._replace(left_out=left_out))


def _warn(selection: Selection, jobs: Sequence[Mapping[str, Any]], system: str) -> None:
    for reason, cells in left_out_by_reason(selection.left_out).items():
        say(f"left out: {reason}: {', '.join(cells)}")
    if len(jobs) > (most := MOST_JOBS[system]):
        say(
            f"warning: {len(jobs)} jobs, but {system} runs at most {most} of one matrix: use --cuda or --python"
        )


def _show_gitlab(jobs: Sequence[Mapping[str, Any]], tests: Sequence[Mapping[str, Any]]) -> None:
    """Print GitLab's jobs; raises UsageError for a runner that it cannot select."""
    several = next((each["runner"] for each in tests if len(each.get("runner", ())) > 1), None)
    if several:
        raise UsageError.of(
            f"[test.matrix] gpu: GitLab's jobs select a runner by one tag, not by {', '.join(several)}",
            hint="give the runner a tag of its own",
        )
    click.echo(gitlab(jobs, "matrix-gitlab.yml"))
    # the job runs gpuforge by the Python of its image
    fit = [each for each in tests if CPython.parse(each["python"]) >= OLDEST]
    if missing := [each["test"] for each in tests if each not in fit]:
        say(
            f"left out: gpuforge needs Python {OLDEST}, and GitLab's image has one Python: {', '.join(missing)}"
        )
    if fit:
        click.echo(f"\n{gitlab(fit, 'tests-gitlab.yml')}")


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
        "archs": list(made.file.manifest.on(cell.machine).cuda.versions[cell.cuda].archs)
        if cell.cuda
        else [],
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
    for reason, cells in left_out_by_reason(chosen.left_out).items():
        text = f"left out: {reason}: {', '.join(cells)}"
        console.print(text, style="dim", highlight=False, markup=False)


def table_of_tests(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Print the test jobs for people."""
    for entry in jobs:
        where = f" (on {', '.join(entry['runner'])})" if "runner" in entry else ""
        result([f"{entry['test']}{where}\n  {entry['run']}\n"])
    result([f"{count(len(jobs), 'test job')}\n"])


def shared_by_jobs(environ: Mapping[str, str]) -> list[str]:
    """Return what a CI system's jobs need to share the store and the compiler cache that are set here.

    These are variables with their values, only the names of secret ones, and packages that must be installed.
    """
    back_end = "" if environ.get(sccache.OFF) else sccache.back_end(environ)
    own = ("SCCACHE_",) if back_end else ()
    keys = ("AWS_", "GOOGLE_") if "://" in (address(environ) or "") or back_end in _BUCKETS else ()
    names = [name for name in (VARIABLE, sccache.IDENTITY) if environ.get(name)]
    found = [*names, *sorted(name for name in environ if name.startswith((*own, *keys)))]
    secrets = [name for name in found if _is_secret(name, environ[name])]
    settings = [f"{name}={environ[name]}" for name in found if name not in secrets]
    if not settings:
        return []
    also = f", and {', '.join(secrets)} as secrets" if secrets else ""
    return [f"note: set {', '.join(settings)} in every job{also}"]


def _is_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable is not shown: those of unknown variables may be secret."""
    is_known = name in {VARIABLE, sccache.IDENTITY} or name.endswith(_PUBLIC)
    return not is_known or hidden(value, {}) != value


WHEELS = "dist"  # a job finds the wheels of a cell in dist/CELL
_RUNS_GPUFORGE = "3.12"  # a Python that every wheel for all Pythons can be tested on


def test_jobs(
    made: Planned, path: Path, cells: Sequence[Cell], distribution: dict[str, str], *, reduced: bool
) -> list[dict[str, Any]]:
    """Return the test jobs of some cells; those without a GPU name no runner.

    `distribution` has each wheel's name, by the cell's id. With `reduced`, only the first test of each cell,
    and none on a GPU.
    """
    file = made.file
    runners = () if reduced else file.manifest.test.matrix.gpu
    found = []
    for cell in cells:
        for point in cell.points:
            tests = [*_tests(file, cell)]
            where = f"-{point.label}" if len(cell.points) > 1 else ""
            words = _command(file, path, cell, point, distribution[cell.id])
            for name, options in tests[:1] if reduced else tests:
                found.append(_job(cell, f"{cell.id}{where}-{name}", [*words, *options]))
            for runner in runners:
                if not too_old(runner, cell):
                    label = f"gpu-{runner.driver}" if runner.driver else "-".join(runner.runner)
                    for name, options in tests or [("newest", [])]:
                        job = _job(cell, f"{cell.id}{where}-{name}-{label}", [*words, "--gpu", *options])
                        found.append({**job, "runner": list(runner.runner)})
    return found


def too_old(runner: GpuRunner, cell: Cell) -> bool:
    """Return whether the driver of a runner is too old for a cell's wheel."""
    if not (runner.driver and cell.toolkit):
        return False
    floor, driver = Version(releases.release(cell.toolkit).driver_floor), Version(runner.driver)
    return driver.release < floor.release[: len(driver.release)]


def _tests(file: ManifestFile, cell: Cell) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the options of each test of a cell's wheel."""
    matrix = file.manifest.test.matrix
    for which in matrix.requirements:
        yield which, ["--requirements", which]
    minors = [minor for minor in matrix.minors if cell.toolkit and major_of(minor) == major_of(cell.toolkit)]
    for minor in minors:
        names = ",".join(dict.fromkeys(["cudart", *file.manifest.cuda.libraries]))
        yield f"cuda{minor}", ["--with", f"cuda-toolkit[{names}]=={minor}.*"]


def _command(file: ManifestFile, path: Path, cell: Cell, point: Point, distribution: str) -> list[str]:
    """Return the command that tests a cell's wheel, as far as all of its tests share it."""
    folder = f"{WHEELS}/{cell.id}"
    beside = [f"PIP_FIND_LINKS={folder}"] if kernels_wheels.is_split(file.manifest) else []
    manifest = path if path.name == FILE_NAME or path.suffix == ".toml" else path / FILE_NAME
    words = [*beside, "gpuforge", "test", f"{folder}/{distribution.replace('-', '_')}-*.whl"]
    words += ["--manifest", manifest.as_posix()]
    words += [word for name, value in point.values for word in ("--axis", f"{name}={value}")]
    return words + [
        word for each in trial.extras(file.at(point).manifest, cell) for word in ("--extra", each)
    ]


def _job(cell: Cell, name: str, words: Sequence[str]) -> dict[str, Any]:
    run = " ".join(word if "*.whl" in word else shlex.quote(word) for word in words)
    python = _RUNS_GPUFORGE if cell.python == "3" else cell.python
    return {"test": name, "cell": cell.id, "machine": cell.machine, "python": python, "run": run}
