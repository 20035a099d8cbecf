"""`gpuforge shell`: a shell where the failed action of a cell ran."""

from pathlib import Path
from typing import Any

import click

from gpuforge import locks
from gpuforge.cli import folders
from gpuforge.cli.build import Options, planned_by, runner_settings
from gpuforge.cli.options import FOLDER, PATH, Call, archs, images, pass_call
from gpuforge.cli.planning import Planned
from gpuforge.cli.terminal import say
from gpuforge.errors import UsageError
from gpuforge.execute.ledger import Ledger
from gpuforge.execute.outcome import ActionReason
from gpuforge.execute.runners.choice import on_worker
from gpuforge.execute.work import Work, Workplace
from gpuforge.plan.action import Action
from gpuforge.plan.keys import Key, keys
from gpuforge.plan.source_files import FAILED


@click.command("shell", context_settings={"allow_interspersed_args": True})
@click.argument("cell")
@click.argument("words", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
@click.option(
    "--manifest",
    "path",
    type=PATH,
    default=Path(),
    show_default=False,
    metavar="FILE",
    help="Default: that of this folder.",
)
@click.option("--runner", type=click.Choice(["local", "docker"]), default="local")
@images
@archs
@click.option("--gpu", is_flag=True, help="As for the build that failed.")
@click.option("--output", "-o", "dist", type=FOLDER, default=Path("dist"), metavar="DIST")
@pass_call
def command(call: Call, /, *, cell: str, words: tuple[str, ...], **given: Any) -> int:
    """Open a shell where the action of CELL that failed last ran: its folder or container, inputs and environment.

    What `build --keep-failed` kept is there again, and goes back to DIST/.failed afterwards. Without it, the folder is
    as before the action, and is removed at the end. $GPUFORGE_COMMAND has the action's command. Give the options of
    that build. With COMMAND, that is run instead of a shell.
    """
    options = Options(cell=cell, **given)
    made = planned_by(options, call)
    found = keys(made.plan.actions)
    action = _failed(made, found, Ledger(call.cache / "ledger.jsonl"), cell)
    failed = options.dist / FAILED
    kept = (failed / locks.file_name(action.id)).is_dir()
    left = "the folder is as it left it" if kept else "the folder is as before it, and is removed at the end"
    say(f'{action.title} failed; {left}. Its command: eval "$GPUFORGE_COMMAND"')
    needs = {need: found[need].digest for need in action.needs}
    key = found[action.id]
    work = Work(action, key.digest, key.facts, needs, ActionReason("first"))
    in_image = options.runner == "docker"
    shell = "sh" if in_image else call.environ.get("SHELL") or "sh"
    store = folders.opened(call.cache, call.environ)
    with store.present():
        runner = on_worker(in_image=in_image).runner(made.sites, runner_settings(made, options, call))
        return Workplace(store, runner).enter(work, words or (shell,), failed)


def _failed(made: Planned, found: dict[str, Key], ledger: Ledger, cell: str) -> Action:
    """Return the first action of a cell that failed as it would run now; raises UsageError if none did."""
    for action in made.plan.actions:
        last = ledger.last(str(made.file.path), action.id)
        if last and last.result == "failed" and last.key == found[action.id].digest:
            return action
    raise UsageError.of(
        f"no action of {cell} failed when it last ran with these options and inputs",
        hint=f"run gpuforge build --cell {cell} --keep-failed with them, then this",
    )
