"""`gpuforge init`: a first manifest for any project."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuforge.cli.arguments import PATH
from gpuforge.cli.terminal import complain, result
from gpuforge.diagnostics import shown
from gpuforge.errors import GpuforgeError, MissingError, UsageError

if TYPE_CHECKING:
    from gpuforge.project.guess.guess import Guess, Note


@click.command("init")
@click.argument("project", default=".", metavar="[PROJECT|FOLDER|SDIST]")
@click.option(
    "--output",
    "-o",
    type=PATH,
    metavar="FILE",
    help="Where to write the manifest (`-`: print it). Default: gpuforge.toml in FOLDER, else here.",
)
def command(project: str, output: Path | None) -> int:
    """Write a first gpuforge.toml for a project: its folder (default: here), its sdist, or its name on the index.

    It reads the project's files and runs none of its code. The reason of each guess is a comment above it.
    """
    from gpuforge.cli.build_folders import unwritable
    from gpuforge.manifest.load import FILE_NAME
    from gpuforge.project import draft, facts
    from gpuforge.project.obtain import obtain

    folder = Path(project)
    target = output or (folder if folder.is_dir() else Path()) / FILE_NAME
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
        found = draft.guesses(facts.look(root), origin)
    text = draft.write(found, f"gpuforge init {shown(project)}" if project != "." else "gpuforge init")
    if printed:
        result([text])
        return 0
    return _written(target, text, found)


def _written(target: Path, text: str, guesses: list[Guess | Note]) -> int:
    """Write the manifest, and report its guesses and whether it can be planned."""
    from gpuforge import disk
    from gpuforge.cli import init_text
    from gpuforge.cli.options import Choice
    from gpuforge.cli.planning import planned
    from gpuforge.plan.survey import machine_type

    disk.write_text(target, text)
    result(init_text.report(target, guesses))
    try:
        made = planned(Choice(target), machine_type(), lambda _: [])
    except GpuforgeError as error:
        complain(error.diagnostics)
        result([f"\n{target} cannot be planned yet: see the errors\n"])
        return 0 if isinstance(error, MissingError) else 1
    result(init_text.plan(target, made, guesses))
    return 0
