"""`gpuforge init`: a first manifest for any project."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import click

from gpuforge import disk
from gpuforge.cli.folders import unwritable
from gpuforge.cli.matrix import places
from gpuforge.cli.options import PATH, Call, pass_call
from gpuforge.cli.planning import DEFAULT_IMAGE, Planned, left_out_by_reason, missing_status, planned
from gpuforge.cli.terminal import complain, count, result, say
from gpuforge.containers import catalog
from gpuforge.cuda.targets import Target
from gpuforge.diagnostics import shown
from gpuforge.errors import GpuforgeError, MissingError, UsageError
from gpuforge.manifest.load import FILE_NAME
from gpuforge.plan.cell import Choice
from gpuforge.plan.survey import machine_type
from gpuforge.project import draft, facts
from gpuforge.project.guess import Guess, Note, Reason
from gpuforge.project.obtain import obtain

WORKFLOWS = {"github": Path(".github", "workflows", "wheels.yml"), "gitlab": Path(".gitlab-ci.yml")}


@click.command("init")
@click.argument("project", default=".", metavar="[PROJECT|FOLDER|SDIST]")
@click.option(
    "--output",
    "-o",
    type=PATH,
    metavar="FILE",
    help="Where to write the manifest (`-`: print it). Default: gpuforge.toml in FOLDER, else here.",
)
@click.option(
    "--ci",
    type=click.Choice(list(WORKFLOWS)),
    help="Also write the CI system's workflow, which plans, builds, audits and (GitHub) publishes. "
    "A manifest that is there stays as it is.",
)
@pass_call
def command(call: Call, /, project: str, output: Path | None, ci: str | None) -> int:
    """Write a first gpuforge.toml for a project: its folder (default: here), its sdist, or its name on the index.

    It reads the project's files and runs none of its code. The reason of each guess is a comment above it.
    """
    folder = Path(project) if Path(project).is_dir() else Path()
    target = output or folder / FILE_NAME
    if ci is None:
        return _manifest(call, project, target)
    workflow = folder / WORKFLOWS[ci]
    if workflow.exists():
        raise UsageError.of(f"{workflow} exists already", hint="remove it, or leave --ci out")
    image = catalog.find(DEFAULT_IMAGE)
    gcc = int(image.compilers[0].rpartition("-")[2]) if image else None
    status = 0 if target.is_file() else _manifest(call, project, target, gcc)
    workflow.parent.mkdir(parents=True, exist_ok=True)
    disk.write_text(workflow, resources.files(__package__).joinpath("workflows", f"{ci}.yml").read_text())
    result([f"\n{workflow}: set GPUFORGE in it, and read what else it says\n"])
    if not status and target.is_file():
        _say_what_is_left_out(call, target)
    return status


def _say_what_is_left_out(call: Call, manifest: Path) -> None:
    """Say what the workflow's plan will refuse: its images have other compilers and Pythons than this machine."""
    machine = machine_type()
    try:
        made = planned(manifest, Choice(), machine, lambda file: places(file, (), machine), call.environ)
    except GpuforgeError as error:
        complain(error.diagnostics)
        return
    for reason, cells in left_out_by_reason(made.selection.left_out).items():
        say(f"the workflow's `gpuforge matrix` leaves out: {reason}: {', '.join(cells)}")
    missing_status(made.selection, allowed=False)


def _manifest(call: Call, project: str, target: Path, gcc: int | None = None) -> int:
    """Write or print the manifest, with CUDA's toolkits that take the compiler `gcc`."""
    if target.is_dir():
        target /= FILE_NAME
    printed = str(target) == "-"
    if not printed and target.exists():
        raise UsageError.of(
            f"{target} exists already", hint="name another file with --output (-o), or remove it"
        )
    if not printed and (reason := unwritable(target.parent)):
        raise MissingError.of(
            f"{target} cannot be written: {reason}",
            hint="name another file with --output (-o), or `-o -` to print it",
        )
    with tempfile.TemporaryDirectory(prefix="gpuforge-init-") as scratch:
        with contextlib.redirect_stdout(sys.stderr):  # the step's log
            origin, root = obtain(project, target, Path(scratch))
        found = draft.guesses(facts.look(root), origin, gcc)
    text = draft.write(found, f"gpuforge init {shown(project)}" if project != "." else "gpuforge init")
    if printed:
        result([text])
        return 0
    return _written(call, target, text, found)


def _written(call: Call, target: Path, text: str, guesses: list[Guess | Note]) -> int:
    """Write the manifest, and report its guesses and whether it can be planned."""
    disk.write_text(target, text)
    result(report_guesses(target, guesses))
    try:
        made = planned(target, Choice(), machine_type(), lambda _: [], call.environ)
    except GpuforgeError as error:
        complain(error.diagnostics)
        result([f"\n{target} cannot be planned yet: see the errors\n"])
        return 0 if isinstance(error, MissingError) else 1
    result(report_cells(target, made, guesses))
    return 0


def report_guesses(target: Path, found: Sequence[Guess | Note]) -> Iterator[str]:
    """Yield the guesses, then the notes."""
    guesses = [each for each in found if isinstance(each, Guess)]
    notes = [each for each in found if isinstance(each, Note)]
    yield f"{target}: {count(len(guesses), 'guess', 'guesses')}\n"
    for each in guesses:
        yield f"  [{'.'.join(each.table)}] {shown(draft.written(each))}\n"
        for text in dict.fromkeys(reason.sentence for reason in each.reasons):
            yield f"      {text}\n"
    if notes:
        yield "\nto do:\n"
    for note in notes:
        yield f"  {note.reason.sentence}\n"


def report_cells(target: Path, made: Planned, guesses: Sequence[Guess | Note]) -> Iterator[str]:
    """Yield the cells of the manifest on this machine, and a command that builds one quickly."""
    cells = made.selection.cells
    yield f"\n{count(len(cells), 'cell')} can be built here: {', '.join(cell.id for cell in cells)}\n"
    for reason, names in left_out_by_reason(made.selection.left_out).items():
        yield f"left out: {reason}: {', '.join(names)}\n"
    newest = cells[-1]
    folder = "" if target.parent == Path() else f" {target.parent.as_posix()}"
    path = folder if target.name == "gpuforge.toml" else f" {target.as_posix()}"
    versions = made.file.manifest.cuda.versions
    archs = versions[newest.cuda].archs if newest.cuda else ()
    fixed = any(reason.kind == "fixed-archs" for reason in _reasons(guesses))
    quick = f" --archs {Target.parse(archs[-1]).arch.number}" if archs and not fixed else ""
    yield f"next, one of them{', quickly' * bool(quick)}: gpuforge build{path} --cell {newest.id}{quick}\n"


def _reasons(guesses: Sequence[Guess | Note]) -> Iterator[Reason]:
    for each in guesses:
        yield from each.reasons if isinstance(each, Guess) else (each.reason,)
