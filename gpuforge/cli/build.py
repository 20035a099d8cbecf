"""`gpuforge build`: plan the cells, run what is not there yet, put the wheels into one folder."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import click

from gpuforge import digest
from gpuforge.cli import places
from gpuforge.cli.arguments import FOLDER, errors_as_json
from gpuforge.cli.build_report import Result, Wheel, result_data, show_plan, show_result
from gpuforge.cli.dist import keep_current, kept_back, proved
from gpuforge.cli.main import INTERRUPTED
from gpuforge.cli.options import SIZE, cache_dir, listed, selection
from gpuforge.cli.planning import DEFAULT_IMAGE, Choice, planned
from gpuforge.cli.terminal import say
from gpuforge.errors import MissingError, UsageError
from gpuforge.execute.engine import run
from gpuforge.execute.ledger import FileLedger
from gpuforge.execute.outcome import Outcome, Step
from gpuforge.execute.runners.local.local_runner import LocalRunner
from gpuforge.execute.runners.runner import Limits, Runner
from gpuforge.execute.store import FolderStore, Store
from gpuforge.execute.verdict import verdicts
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.keys import keys
from gpuforge.plan.lower.cell_actions import Plan
from gpuforge.plan.machine import machine_type
from gpuforge.plan.site import ContainerImage
from gpuforge.toolchains import sccache


@click.command("build")
@selection
@click.option("--runner", type=click.Choice(["local", "docker", "dask"]), default="local", show_default=True)
@click.option(
    "--image",
    "images",
    multiple=True,
    callback=listed,
    metavar="NAME",
    help="Container images to build in, instead of the manifest's [wheel] image.",
)
@click.option(
    "--memory", type=SIZE, default=None, metavar="SIZE", help='Most memory of one container: "8 GB".'
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=6.0,
    metavar="HOURS",
    show_default=True,
    help="Longest time that one action may run in a container.",
)
@click.option(
    "--jobs", "-j", type=click.IntRange(min=1), default=None, metavar="N", help="Default: one per CPU."
)
@click.option("--gpu", is_flag=True, help="Test the wheels where this machine's GPUs are seen.")
@click.option("--no-test", is_flag=True, help="Do not install, import and test the wheels.")
@click.option("--dry-run", is_flag=True, help="Show cells and actions; run nothing.")
@click.option("--explain", is_flag=True, help="Say for each action why it runs or is reused.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan or the result as JSON.")
@click.option(
    "--output",
    "-o",
    "dist",
    type=FOLDER,
    default=Path("dist"),
    metavar="DIST",
    show_default=True,
    help="Folder for the wheels.",
)
@click.pass_context
@errors_as_json
def command(
    ctx: click.Context, path: Path, cuda: tuple[str, ...], python: tuple[str, ...], archs: tuple[str, ...],
    cell: str | None, runner: str, images: tuple[str, ...], memory: int | None, timeout: float, jobs: int | None,
    gpu: bool, no_test: bool, dry_run: bool, explain: bool, as_json: bool, dist: Path,
) -> None:  # fmt: skip
    """Build the wheels of the manifest in PATH (default: here), prove and test each; what is done already is reused."""
    began = time.monotonic()
    if runner == "local":
        _refuse_limits(ctx)
    if runner == "dask":
        raise UsageError.of("the runner 'dask' cannot be used yet", hint="use --runner local or docker")
    cache = cache_dir()
    places.check(dist, cache, os.environ)

    def sites(file: ManifestFile) -> list[ContainerImage]:
        tested_in = not no_test and (file.manifest.test.image or True)
        return where(runner, images or file.manifest.wheel.image, tested_in, cache, memory)

    made = planned(Choice(path, cuda, python, archs, cell), machine_type(), sites, test=not no_test, gpu=gpu)
    file, chosen, plan = made.file, made.selection, made.plan
    found = keys(plan.actions)
    steps = [Step(action, found[action.id].digest, found[action.id].facts) for action in plan.actions]
    store, ledger = FolderStore(cache / "store"), FileLedger(cache / "ledger.jsonl")
    project = str(file.path)
    ends = (plan.wheels, plan.kernels, plan.reports, plan.tests)
    wanted = {end.action for each in ends for end in each.values()}
    if dry_run:
        judged = verdicts(steps, store=store, ledger=ledger, project=project, wanted=wanted)
        show_plan(plan, chosen, judged, explain=explain, as_json=as_json)
        return
    from gpuforge.cli.progress import progress

    with progress() as observer:
        outcome = run(
            steps,
            store=store,
            ledger=ledger,
            runner=runner_of(
                made.sites, file.manifest.package.name, cache, Limits(memory, jobs, seconds=timeout * 3600)
            ),
            jobs=jobs or os.cpu_count() or 1,
            observer=observer,
            logs=cache / "logs",
            project=project,
            wanted=wanted,
        )
    results = collect(plan, steps, store, outcome, dist)
    missing = [] if archs else kept_back(plan, outcome)  # a quick try takes nobody's place
    aside = keep_current(dist, file.manifest.package.name, results, missing)
    result = Result(plan, chosen, outcome, results, time.monotonic() - began, aside)
    if as_json:
        click.echo(json.dumps(result_data(result), indent=2))
    else:
        show_result(result, images=file.manifest.wheel.image, explain=explain)
    for note in plan.notes:
        say(f"note: {note}")
    ctx.exit(exit_code(outcome))


def _refuse_limits(ctx: click.Context) -> None:
    """Raise UsageError when an option was given that processes of this machine would not heed."""
    given = [
        f"--{name}"
        for name, parameter in (("image", "images"), ("memory", "memory"), ("timeout", "timeout"))
        if ctx.get_parameter_source(parameter) is not click.core.ParameterSource.DEFAULT
    ]
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise UsageError.of(f"{' and '.join(given)} {verb} for containers", hint="add --runner docker")


def where(
    runner: str, names: Sequence[str], test: str | bool, cache: Path, memory: int | None
) -> list[ContainerImage]:
    """Return the images to build in, ready to run; none for local processes.

    Raises what `obtain.images` does, and MissingError when containers are to have a limit of `memory` (bytes) that
    the engine would not keep.
    """
    if runner == "local":
        return []
    from gpuforge.containers import obtain
    from gpuforge.containers.connect import connect
    from gpuforge.containers.docker_containers import DockerContainers
    from gpuforge.containers.docker_images import DockerImages
    from gpuforge.containers.leftovers import clear_leftovers

    client = connect()
    containers = DockerContainers(client)
    if memory and not containers.limits_memory():
        raise MissingError.of(
            "this container engine cannot limit memory",
            hint="leave --memory out; an engine that runs without root needs cgroup v2, with its memory controller",
        )
    clear_leftovers(containers)
    return obtain.images(
        DockerImages(client),
        names or [DEFAULT_IMAGE],
        test=test,
        machine=machine_type(),
        cache=cache / "images",
        pulls=lambda reference: say(f"pulling {reference} …"),
    )


def runner_of(images: Sequence[ContainerImage], project: str, cache: Path, limits: Limits) -> Runner:
    """Return what runs the actions: processes of this machine or, given images, containers."""
    environ = sccache.configured(os.environ, cache / "sccache")
    local = LocalRunner(environ=environ, project=project)
    if not images:
        return local
    from gpuforge.execute.runners.docker.docker_runner import DockerRunner

    return DockerRunner(
        {each.id: each for image in images for each in (image, image.test) if each},
        local=local,
        cache=cache,
        limits=limits,
        environ=environ,
        caches={"sccache": Path(environ[sccache.FOLDER])},
        project=project,
    )


def exit_code(outcome: Outcome) -> int:
    """Return the status of the contract: 3 when all that failed was something missing on this machine."""
    if outcome.interrupted:
        return INTERRUPTED
    failed = {result.status for result in outcome.having("failed")}
    return 0 if outcome.ok else MissingError.exit_code if failed == {MissingError.exit_code} else 1


def collect(plan: Plan, steps: Sequence[Step], store: Store, outcome: Outcome, dist: Path) -> list[Wheel]:
    """Copy each proved and tested wheel from the store into `dist`, whole or not at all; return what lies there now."""
    keys = {step.action.id: step.key for step in steps}
    wheels = []
    for cell in proved(plan, outcome):
        tests = [plan.tests[cell]] if cell in plan.tests else []
        parts = [[plan.wheels[cell], plan.reports[cell], *tests]]
        parts += [[plan.kernels[cell], plan.kernels_reports[cell]]] if cell in plan.kernels else []
        for ends in parts:
            stored = [entry.path(each.output) for each in ends if (entry := store.get(keys[each.action]))]
            if len(stored) < len(ends):
                continue
            (source,) = stored[0].glob("*.whl")
            report, *test = (json.loads(path.read_bytes()) for path in stored[1:])
            wheels.append(put(source, dist, cell, report, test[0] if test else None))
    return wheels


def put(
    source: Path, dist: Path, cell: str, report: dict[str, Any], test: dict[str, Any] | None = None
) -> Wheel:
    """Copy one wheel into `dist` unless the same bytes are there already."""
    target, sha256 = dist / source.name, digest.of_file(source)
    if not (target.is_file() and digest.of_file(target) == sha256):
        dist.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=dist, prefix=".", suffix=".part", delete=False) as part:
            try:
                shutil.copyfile(source, part.name)
                Path(part.name).chmod(0o644)
                Path(part.name).replace(target)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    return Wheel(cell, target, sha256, target.stat().st_size, report, test)
