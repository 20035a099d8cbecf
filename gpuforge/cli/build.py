"""`gpuforge build`: plans the cells, runs the actions whose outputs are missing, puts the wheels into one folder."""

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from gpuforge.actions.cell_actions import Plan
from gpuforge.cli import folders
from gpuforge.cli.build_report import result_data, show_plan, show_result
from gpuforge.cli.dist import Result, copy_wheels, keep_current, kept_back
from gpuforge.cli.main import INTERRUPTED
from gpuforge.cli.options import (
    FOLDER,
    Call,
    allow_missing,
    as_duration,
    as_size,
    errors_as_json,
    images,
    pass_call,
    selection,
)
from gpuforge.cli.planning import DEFAULT_IMAGE, Planned, missing_status, planned
from gpuforge.cli.terminal import complain, say
from gpuforge.errors import ActionError, GpuforgeError, MissingError, UsageError
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import Outcome, Step
from gpuforge.execute.runners.choice import RUNNERS, RunnerSettings, SiteRequest, chosen
from gpuforge.execute.store import Store
from gpuforge.execute.verdict import Verdict, nothing_ran, verdicts
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.cell import Choice, machines
from gpuforge.plan.compiler_cache import sharing
from gpuforge.plan.keys import keys
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.source_files import FAILED
from gpuforge.plan.survey import machine_type

# Options that only some runners support, with their parameters.
_FOR_RUNNERS = (("image", "images"), ("scheduler", "scheduler"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Choice):
    """The options of `gpuforge build`; `timeout` in hours, `deadline` in seconds, `memory` in bytes."""

    path: Path = Path()
    runner: str = "local"
    scheduler: str | None = None
    images: tuple[str, ...] = ()
    memory: int | None = None
    timeout: float = 6.0
    deadline: float | None = None
    jobs: int | None = None
    gpu: bool = False
    no_test: bool = False
    inplace: bool = False
    keep_failed: bool = False
    dry_run: bool = False
    explain: bool = False
    as_json: bool = False
    dist: Path = Path("dist")


@click.command("build")
@selection
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default="local",
    help="Where actions run: local processes, containers, or dask workers.",
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="The dask scheduler whose workers build: tcp://HOST:8786."
)
@images
@click.option(
    "--memory",
    type=as_size,
    metavar="SIZE",
    help='What compilers may take together ("8 GB"; default: this machine\'s memory), or the limit of each container.',
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=6.0,
    metavar="HOURS",
    help="Time limit of each action.",
)
@click.option(
    "--deadline",
    type=as_duration,
    metavar="5h30m",
    help="Stop in time before a CI job's own limit. What is finished is kept, and the next build goes on from there.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of actions at once. Default: one per CPU.",
)
@click.option("--gpu", is_flag=True, help="Let the wheels' tests see this machine's GPUs.")
@click.option("--no-test", is_flag=True, help="Do not install, import and test the wheels.")
@click.option(
    "--inplace",
    is_flag=True,
    help="Make no wheel: install the project as editable (pip install -e) into the active environment, with kernels.",
)
@allow_missing
@click.option(
    "--keep-failed",
    is_flag=True,
    help="Move the working directories of failed actions to DIST/.failed, unless a worker of --scheduler has them.",
)
@click.option("--dry-run", is_flag=True, help="Show cells and actions; run nothing.")
@click.option("--explain", is_flag=True, help="Show for each action why it runs or is reused.")
@click.option(
    "--json", "as_json", is_flag=True, callback=errors_as_json, help="Print the plan or the result as JSON."
)
@click.option(
    "--output",
    "-o",
    "dist",
    type=FOLDER,
    default=Path("dist"),
    metavar="DIST",
    help="Folder for the wheels.",
)
@pass_call
@click.pass_context
def command(ctx: click.Context, call: Call, /, **given: Any) -> int:
    """Build, prove and test the wheels of the manifest in PATH (default: here). Finished work is reused."""
    options = Options(**given)
    _refuse_options(ctx, options.runner)
    return _in_place(options, call) if options.inplace else _build(options, call)


def _build(options: Options, call: Call) -> int:
    """Plan and run; return the exit status. Builds that `[build] build` or `[test] build` names take of the time."""
    began = time.monotonic()
    made = planned_by(options, call)
    if limit := options.deadline:
        options = replace(options, deadline=limit - (time.monotonic() - began))
    plan, selection = made.plan, made.selection
    steps = _steps(plan)
    store = folders.opened(call.cache, call.environ)
    with store.present():
        outcome = _outcome(made, steps, store, options, call)
    if outcome is None:
        return missing_status(selection, allowed=options.allow_missing)
    wheels = copy_wheels(plan, steps, store, outcome, options.dist)
    name, tried = made.file.manifest.package.name, ",".join(options.archs)
    aside = keep_current(options.dist, name, wheels, kept_back(plan, outcome), tried)
    result = Result(plan, selection, outcome, wheels, time.monotonic() - began, aside)
    if options.as_json:
        click.echo(json.dumps(result_data(result), indent=2))
    else:
        show_result(result, images=made.file.manifest.wheel.image, explain=options.explain)
    if outcome.interrupted and limit and result.seconds >= limit:  # else by Ctrl-C
        say(f"note: stopped by --deadline: the same command goes on from what is in {call.cache}")
    for note in plan.notes if wheels else ():
        say(f"note: {note}")
    missing = missing_status(selection, allowed=options.allow_missing)
    return exit_code(outcome) or missing


def _in_place(options: Options, call: Call) -> int:
    """Install the project as editable into the active environment; return the exit status."""
    from gpuforge.cli import inplace

    if options.runner != "local":
        raise UsageError.of(
            "--inplace builds on this machine, where the environment is", hint="leave --runner out"
        )
    python, minor = inplace.active(call.environ)
    options = replace(options, no_test=True, python=() if options.cell else (minor,))
    whole = planned_by(options, call)
    made = whole._replace(plan=inplace.part(whole.plan))
    steps = _steps(made.plan)
    store = folders.opened(call.cache, call.environ)
    with store.present():
        outcome = _outcome(made, steps, store, options, call)
        if outcome is None:
            return 0
        if outcome.ok:
            inplace.install(whole, store, steps, python, runner_settings(whole, options, call))
    return exit_code(outcome)


def _steps(plan: Plan) -> list[Step]:
    found = keys(plan.actions)
    return [Step(action, found[action.id].digest, found[action.id].facts) for action in plan.actions]


def _outcome(made: Planned, steps: list[Step], store: Store, options: Options, call: Call) -> Outcome | None:
    """Run the actions that are not stored yet; with `--dry-run` show the plan and return None."""
    judged = verdicts(
        steps,
        store=store,
        ledger=Ledger(call.cache / "ledger.jsonl"),
        project=str(made.file.path),
        targets=made.plan.targets,
    )
    if options.dry_run:
        show_plan(made.plan, made.selection, judged, explain=options.explain, as_json=options.as_json)
        return None
    if any(verdict.run for verdict in judged.values()):
        return _run(made, steps, judged, store, options, call)
    return nothing_ran(judged)


def _refuse_options(ctx: click.Context, name: str) -> None:
    """Raise UsageError for options that the chosen runner does not support."""
    given = [
        f"--{option}"
        for option, parameter in _FOR_RUNNERS
        if ctx.get_parameter_source(parameter) is not click.core.ParameterSource.DEFAULT
        and option not in chosen(name).takes
    ]
    if given:
        others = [each for each in RUNNERS if {f"--{option}" for option in chosen(each).takes} >= {*given}]
        verb = "is" if len(given) == 1 else "are"
        runners = " or ".join(f"--runner {each}" for each in others)
        raise UsageError.of(
            f"{' and '.join(given)} {verb} not for --runner {name}", hint=f"add {runners}" if runners else ""
        )


def planned_by(options: Options, call: Call) -> Planned:
    """Return the plan of a build; raises MissingError if one of its folders cannot be used."""
    folders.check(options.dist, call.cache, call.environ)

    def sites(file: ManifestFile) -> list[ContainerImage]:
        if not options.dry_run:
            _build_first(file, options, call)
        return _sites(options, file, call.cache)

    return planned(
        options.path,
        options,
        machine_type(),
        sites,
        call.environ,
        test=not options.no_test,
        gpu=options.gpu,
    )


def _build_first(file: ManifestFile, options: Options, call: Call) -> None:
    """Build the manifests that the build and the tests need, each into its own `dist`.

    Raises ActionError if one of them fails.
    """
    ends = None if options.deadline is None else time.monotonic() + options.deadline
    of_cell = re.match(r"cp(3)(\d+t?)-", options.cell or "")
    tables = [
        ("build", file.manifest.build.build),
        ("test", () if options.no_test else file.manifest.test.build),
    ]
    for table, number, name in [(table, n, name) for table, names in tables for n, name in enumerate(names)]:
        folder = Path(os.path.normpath(file.folder / name))
        say(f"building {name} first, as [{table}] build says")
        own = replace(
            options,
            path=folder,
            dist=folder / "dist",
            as_json=False,
            cuda=(),
            axis=(),
            archs=(),
            cell=None,
            python=(".".join(of_cell.groups()),) if of_cell else options.python,
            allow_missing=True,
            no_test=True,
            deadline=ends and ends - time.monotonic(),
        )
        try:
            with redirect_stdout(sys.stderr):
                status = _build(own, call)
        except GpuforgeError as error:
            complain(error.diagnostics)
            status = error.exit_code
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status:
            raise ActionError.of(
                f"{name} could not be built",
                hint=f"its errors are above; `gpuforge build {folder}` tries again",
                place=file.place(table, "build", number),
            )


def _sites(options: Options, file: ManifestFile, cache: Path) -> list[ContainerImage]:
    """Return the images to build in, ready to run; none for local processes."""
    names = options.images or file.manifest.wheel.image or [DEFAULT_IMAGE]
    test = not options.no_test and (file.manifest.test.image or True)
    here = machine_type()  # the place of kernels for GPUs, also where only other types are chosen
    types = [each for each in machines(file.manifest, here) if each in (here, *(options.machine or (each,)))]
    return chosen(options.runner).sites(
        SiteRequest(names, types, bool(options.images), test, cache, options.memory, say)
    )


def _run(
    made: Planned,
    steps: list[Step],
    judged: Mapping[str, Verdict],
    store: Store,
    options: Options,
    call: Call,
) -> Outcome:
    """Run the actions that are not stored yet, and show their progress."""
    from gpuforge.cli.progress import progress
    from gpuforge.execute.engine import Engine
    from gpuforge.toolchains import sccache

    cache = call.cache
    settings = runner_settings(made, options, call)
    if made.sites and (back_end := sccache.back_end(call.environ)):
        say(f"note: builds in containers have no network: their compiler cache is a folder, not {back_end}")
    with (
        progress() as observer,
        chosen(options.runner).workers(made.sites, settings, store) as workers,
    ):
        return Engine(
            steps,
            judged=judged,
            store=store,
            ledger=Ledger(cache / "ledger.jsonl"),
            workers=workers,
            jobs=settings.jobs,
            observer=observer,
            logs=cache / "logs",
            project=str(made.file.path),
            targets=made.plan.targets,
            seconds=options.deadline,
            memory=options.memory if not made.sites else None,
        ).run()


def runner_settings(made: Planned, options: Options, call: Call) -> RunnerSettings:
    """Return what a runner works with."""
    from gpuforge.execute.runners.runner import Limits
    from gpuforge.toolchains import sccache

    cache, url, shared = call.cache, folders.address(call.environ), sharing(made.file)
    for why in shared.refused:
        say(f"note: {why}")
    identity = call.environ.get(sccache.IDENTITY)
    compiled = sccache.folder(shared.name, *shared.manifests, identity=identity)
    return RunnerSettings(
        shared.name,
        cache,
        sccache.configured(call.environ, cache, compiled, url),
        Limits(options.memory, options.jobs, seconds=options.timeout * 3600),
        options.dist / FAILED if options.keep_failed else None,
        compiled=compiled,
        jobs=options.jobs or os.cpu_count() or 1,
        scheduler=options.scheduler,
        shared=url,
    )


def exit_code(outcome: Outcome) -> int:
    """Return the exit status: 3 if all failures are something missing on this machine."""
    if outcome.interrupted:
        return INTERRUPTED
    failed = {result.status for result in outcome.having("failed")}
    return 0 if outcome.ok else MissingError.exit_code if failed == {MissingError.exit_code} else 1
