"""`gpuforge build`: plans the cells, runs the actions whose outputs are missing, puts the wheels into one folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from gpuforge.cli import build_folders, stores
from gpuforge.cli.arguments import FOLDER, errors_as_json
from gpuforge.cli.build_json import result_data
from gpuforge.cli.build_result import Result
from gpuforge.cli.build_text import show_plan, show_result
from gpuforge.cli.copy_wheels import copy_wheels
from gpuforge.cli.dist import keep_current, kept_back
from gpuforge.cli.left_out import allow_missing, status
from gpuforge.cli.main import INTERRUPTED
from gpuforge.cli.options import SIZE, Choice, cache_dir, images, selection
from gpuforge.cli.planning import DEFAULT_IMAGE, Planned, planned
from gpuforge.cli.terminal import say
from gpuforge.errors import MissingError, UsageError
from gpuforge.execute import engine
from gpuforge.execute.compiled.offer import offered
from gpuforge.execute.ledger import FileLedger
from gpuforge.execute.outcome import Outcome, Step
from gpuforge.execute.runners.choice import RUNNERS, RunnerSettings, SiteRequest, chosen
from gpuforge.execute.runners.runner import Limits
from gpuforge.execute.store import WorkStore
from gpuforge.execute.verdict import verdicts
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.compiler_cache import sharing
from gpuforge.plan.keys import keys
from gpuforge.plan.site import ContainerImage
from gpuforge.plan.survey import machine_type
from gpuforge.toolchains import sccache

# Options that only some runners support, with their parameters.
_FOR_RUNNERS = (("image", "images"), ("memory", "memory"), ("scheduler", "scheduler"), ("timeout", "timeout"))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `gpuforge build` except those that choose cells; `timeout` in hours."""

    runner: str
    scheduler: str | None
    images: tuple[str, ...]
    memory: int | None
    timeout: float
    jobs: int | None
    gpu: bool
    no_test: bool
    allow_missing: bool
    keep_failed: bool
    dry_run: bool
    explain: bool
    as_json: bool
    dist: Path


@click.command("build")
@selection
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default="local",
    show_default=True,
    help="Where actions run: local processes, containers, or dask workers.",
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="The dask scheduler whose workers build: tcp://HOST:8786."
)
@images
@click.option(
    "--memory", type=SIZE, default=None, metavar="SIZE", help='Memory limit of each container: "8 GB".'
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=6.0,
    metavar="HOURS",
    show_default=True,
    help="Time limit of each action.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Number of actions at once. Default: one per CPU.",
)
@click.option("--gpu", is_flag=True, help="Let the wheels' tests see this machine's GPUs.")
@click.option("--no-test", is_flag=True, help="Do not install, import and test the wheels.")
@allow_missing
@click.option(
    "--keep-failed", is_flag=True, help="Move the working directories of failed actions to DIST/.failed."
)
@click.option("--dry-run", is_flag=True, help="Show cells and actions; run nothing.")
@click.option("--explain", is_flag=True, help="Show for each action why it runs or is reused.")
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
def command(ctx: click.Context, /, choice: Choice, **rest: Any) -> None:
    """Build, prove and test the wheels of the manifest in PATH (default: here). Finished work is reused."""
    began = time.monotonic()
    options = Options(**rest)
    _refuse_runner(ctx, options.runner)
    cache = cache_dir()
    build_folders.check(options.dist, cache, os.environ)

    def sites(file: ManifestFile) -> list[ContainerImage]:
        return _sites(options, file, cache)

    allowed = options.allow_missing
    made = planned(
        choice, machine_type(), sites, test=not options.no_test, gpu=options.gpu, allow_missing=allowed
    )
    run = _Run.of(made, cache)
    if options.dry_run:
        judged = verdicts(
            run.steps, store=run.store, ledger=run.ledger, project=run.project, targets=run.targets
        )
        show_plan(made.plan, made.selection, judged, explain=options.explain, as_json=options.as_json)
        ctx.exit(status(made.selection, allowed=allowed))
    outcome = run.perform(options, cache)
    wheels = copy_wheels(made.plan, run.steps, run.store, outcome, options.dist)
    missing = kept_back(made.plan, outcome)
    tried = ",".join(choice.archs)
    aside = keep_current(options.dist, made.file.manifest.package.name, wheels, missing, tried)
    result = Result(made.plan, made.selection, outcome, wheels, time.monotonic() - began, aside)
    if options.as_json:
        click.echo(json.dumps(result_data(result), indent=2))
    else:
        show_result(result, images=made.file.manifest.wheel.image, explain=options.explain)
    for note in made.plan.notes if wheels else ():
        say(f"note: {note}")
    missing_status = status(made.selection, allowed=allowed)
    ctx.exit(exit_code(outcome) or missing_status)


def _refuse_runner(ctx: click.Context, name: str) -> None:
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


def _sites(options: Options, file: ManifestFile, cache: Path) -> list[ContainerImage]:
    """Return the images to build in, ready to run; none for local processes."""
    names = options.images or file.manifest.wheel.image or [DEFAULT_IMAGE]
    test = not options.no_test and (file.manifest.test.image or True)
    return chosen(options.runner).sites(
        SiteRequest(names, bool(options.images), test, cache, options.memory, say)
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """A plan with its keys, and the machines that run it; `targets` are the actions whose outputs are read."""

    made: Planned
    steps: list[Step]
    store: WorkStore
    ledger: FileLedger
    targets: frozenset[str]

    @classmethod
    def of(cls, made: Planned, cache: Path) -> _Run:
        plan = made.plan
        found = keys(plan.actions)
        steps = [Step(action, found[action.id].digest, found[action.id].facts) for action in plan.actions]
        ends = [end for each in (plan.wheels, plan.kernels, plan.reports) for end in each.values()]
        tests = [end for each in plan.tests.values() for end in each]
        targets = frozenset(end.action for end in (*ends, *tests, *(plan.front or ())))
        return cls(made, steps, stores.opened(cache), FileLedger(cache / "ledger.jsonl"), targets)

    @property
    def project(self) -> str:
        """The name of the manifest in the ledger."""
        return str(self.made.file.path)

    def perform(self, options: Options, cache: Path) -> Outcome:
        """Run the actions that are not stored yet, and show their progress."""
        limits = Limits(options.memory, options.jobs, seconds=options.timeout * 3600)
        shared = sharing(self.made.file)
        for why in shared.refused:
            say(f"note: {why}")
        identity = os.environ.get(sccache.IDENTITY)
        compiled = sccache.folder(cache, shared.name, *shared.manifests, identity=identity).name
        failed = options.dist / ".failed" if options.keep_failed else None
        jobs = options.jobs or os.cpu_count() or 1
        settings = RunnerSettings(
            shared.name,
            cache,
            {},
            limits,
            failed,
            compiled=compiled,
            jobs=jobs,
            scheduler=options.scheduler,
            shared=stores.address(),
        )
        notes: list[str] = []
        try:
            return self._perform(settings, options.runner, notes.append)
        finally:
            for note in notes:
                say(note)

    def _perform(self, settings: RunnerSettings, runner: str, tell: Callable[[str], None]) -> Outcome:
        from gpuforge.cli.progress import progress

        cache, url = settings.cache, settings.shared
        with (
            self.store.present(),
            progress() as observer,
            offered(os.environ, cache, settings.compiled, url, tell) as variables,
            chosen(runner).workers(
                self.made.sites, replace(settings, variables=variables), self.store
            ) as workers,
        ):
            return engine.run(
                self.steps,
                store=self.store,
                ledger=self.ledger,
                workers=workers,
                jobs=settings.jobs,
                observer=observer,
                logs=cache / "logs",
                project=self.project,
                targets=self.targets,
            )


def exit_code(outcome: Outcome) -> int:
    """Return the exit status: 3 if all failures are something missing on this machine."""
    if outcome.interrupted:
        return INTERRUPTED
    failed = {result.status for result in outcome.having("failed")}
    return 0 if outcome.ok else MissingError.exit_code if failed == {MissingError.exit_code} else 1
