"""`gpuforge audit`: judge finished wheels, one by one and together."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuforge.cli.main import complain

if TYPE_CHECKING:
    from gpuforge.manifest.load import ManifestFile

_IGNORE = re.compile(r"(GF\d{3})(?::([^=]+))?=(.+)", re.DOTALL)


@click.command("audit")
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="WHEEL...")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge what this gpuforge.toml promises too: roles, architectures, kernel sets.",
)
@click.option("--cuda", metavar="KEY", help="Which [cuda.KEY] of the manifest the wheels were built with.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit status 1.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE[:GLOB]=REASON",
    help="Accept findings of a rule, for all files or those that match; the report repeats the reason.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="the processors of this machine",
    help="Processes that read at the same time.",
)
@click.pass_context
def command(
    ctx: click.Context,
    wheels: tuple[Path, ...],
    form: str,
    manifest: Path | None,
    cuda: str | None,
    fail_on: str,
    ignore: tuple[str, ...],
    jobs: int,
) -> None:
    """Judge wheels: runtimes that would meet in one process, libraries that nobody provides, search paths, GPU
    architectures, platform tags. Wheels given together may provide for each other.

    Exit status: 0 nothing at or above --fail-on, 1 findings, 2 something could not be read.
    """
    from rich.console import Console

    from gpuforge.audit import Ignore, audit
    from gpuforge.audit.report import data, text

    if cuda and not manifest:
        raise click.UsageError("--cuda names a table of the manifest: give --manifest too")
    accepted = [Ignore(rule, reason.strip(), glob) for rule, glob, reason in map(_ignored, ignore)]
    report = audit(
        list(dict.fromkeys(wheels)),
        manifest=_load(manifest) if manifest else None,
        cuda=cuda,
        ignore=accepted,
        jobs=jobs,
    )
    if form == "json":
        click.echo(data.dumps(report), nl=False)
    else:
        console = Console(highlight=False)
        if console.is_terminal:
            text.show(report, console)
        else:
            click.echo(text.render(report, width=console.width), nl=False)
    complain(report.problems)
    failing = ("error",) if fail_on == "error" else ("error", "warning")
    if report.problems:
        ctx.exit(2)
    if report.worst() in failing:
        ctx.exit(1)


def _load(manifest: Path) -> ManifestFile:
    from gpuforge.manifest.load import load

    return load(manifest)


def _ignored(option: str) -> tuple[str, str, str]:
    match = _IGNORE.fullmatch(option)
    if match is None or not match[3].strip():
        raise click.UsageError(
            f"--ignore {option}: write RULE[:GLOB]=REASON, as in GF302:lib/*=not loaded by us"
        )
    return match[1], match[2] or "*", match[3]
