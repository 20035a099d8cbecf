"""`gpuforge audit`: judge finished wheels, one by one and together."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from gpuforge.cli.main import complain, drop_output, say

if TYPE_CHECKING:
    from gpuforge.audit import Ignore, Report
    from gpuforge.audit.baseline import Baseline
    from gpuforge.manifest.load import ManifestFile

_IGNORE = r"(?s)(GF\d{3})(?::([^=]+))?=(.+)"
_FAILING: dict[str, tuple[str, ...]] = {"error": ("error",), "warning": ("error", "warning")}


@click.command("audit")
@click.argument("wheels", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="WHEEL...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "junit", "markdown"]),
    default="text",
    show_default=True,
    help="json has everything; sarif is for code scanning, junit for GitLab and Jenkins, markdown for "
    "$GITHUB_STEP_SUMMARY.",
)
@click.option(
    "--tree", "show_tree", is_flag=True, help="Show who loads what, who provides it, and how it is found."
)
@click.option(
    "--gpus", "show_gpus", is_flag=True, help="Show the GPU code of each file, and what each GPU can run."
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge what this gpuforge.toml promises too: roles, architectures, kernel sets.",
)
@click.option(
    "--cuda",
    metavar="KEY",
    help="Which [cuda.KEY] of the manifest the wheels were built with, if their names do not say it.",
)
@click.option(
    "--expect",
    metavar="80,90a,120+ptx",
    help="Which GPU architectures should be in the wheels, where no manifest says it.",
)
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
    "--baseline",
    "known",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Accept the findings that this file lists, and no new ones.",
)
@click.option(
    "--write-baseline",
    "write",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="List the findings in this file, and accept them.",
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
    show_tree: bool,
    show_gpus: bool,
    manifest: Path | None,
    cuda: str | None,
    expect: str | None,
    fail_on: Literal["error", "warning"],
    ignore: tuple[str, ...],
    known: Path | None,
    write: Path | None,
    jobs: int,
) -> None:
    """Judge wheels: runtimes that would meet in one process, libraries that nobody provides, search paths, GPU
    architectures, platform tags. Wheels given together may provide for each other.

    WHEEL is a wheel, a folder with wheels somewhere below it, an unpacked wheel, an environment or its site-packages
    folder, an sdist that has wheels in it, or one binary (.so, .fatbin, .cubin, .ptx, a program).

    Exit status: 0 nothing at or above --fail-on, 1 findings, 2 something could not be read.
    """
    from gpuforge.audit import audit
    from gpuforge.audit.ahead import SWITCH

    if cuda and not manifest:
        raise click.UsageError("--cuda names a table of the manifest: give --manifest too")
    if (show_tree or show_gpus) and form not in {"text", "markdown"}:
        raise click.UsageError("--tree and --gpus are for text and markdown; json has all of it without them")
    if expect and manifest:
        raise click.UsageError("--expect is for wheels without a manifest: the manifest says what to expect")
    accepted = [_ignored(option) for option in ignore]
    base = _base(known) if known else None
    source = _load(manifest) if manifest else None
    sys.setswitchinterval(SWITCH)
    report = audit(
        wheels,
        manifest=source,
        cuda=cuda or (_cuda_of(source, wheels) if source else None),
        expect=expect,
        ignore=[*accepted, *([base] if base else [])],
        jobs=jobs,
    )
    unused = _unused(report, accepted, base)
    try:
        _print(report, form, fail_on, unused, show_tree=show_tree, show_gpus=show_gpus)
    except BrokenPipeError:  # what was found is the same
        drop_output()
    complain(report.problems)
    for text in unused:
        say(f"note: {text}")
    if report.problems:
        if write:
            say(f"note: {write} was not written, as not everything could be read")
        ctx.exit(2)
    if write:
        _write(write, report, base)
    elif report.worst() in _FAILING[fail_on]:
        ctx.exit(1)


def _print(
    report: Report,
    form: str,
    fail_on: Literal["error", "warning"],
    unused: Sequence[str],
    *,
    show_tree: bool,
    show_gpus: bool,
) -> None:
    match form:
        case "json":
            from gpuforge.audit.report import data

            for piece in data.pieces(report, unused):
                click.echo(piece, nl=False)
        case "sarif":
            from gpuforge.audit.report import sarif

            for piece in sarif.pieces(report):
                click.echo(piece, nl=False)
        case "junit":
            from gpuforge.audit.report import junit

            click.echo(junit.dumps(report, fail_on=fail_on), nl=False)
        case "markdown":
            from gpuforge.audit.report import markdown

            click.echo(markdown.render(report, show_tree=show_tree, show_gpus=show_gpus), nl=False)
        case _:
            _print_text(report, show_tree=show_tree, show_gpus=show_gpus)


def _print_text(report: Report, *, show_tree: bool, show_gpus: bool) -> None:
    from gpuforge.audit.report import text

    color = _in_color()
    shown = text.render(report, width=_width(), color=color, show_tree=show_tree, show_gpus=show_gpus)
    click.echo(shown, nl=False, color=color)


def _in_color() -> bool:
    """Say whether to write in colour: to a terminal, or where a CI system asks for it (force-color.org)."""
    if os.environ.get("NO_COLOR"):  # no-color.org
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
    )


def _width() -> int:
    """Return the columns of the terminal, also when its output is piped on; 80 without one."""
    if (columns := os.environ.get("COLUMNS", "")).isdigit() and int(columns):
        return int(columns)
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(descriptor).columns or 80
    return 80


def _base(known: Path) -> Baseline:
    from gpuforge.audit import baseline

    return baseline.read(known)


def _load(manifest: Path) -> ManifestFile:
    from gpuforge.manifest.load import load

    return load(manifest, alone=True)


def _cuda_of(source: ManifestFile, wheels: Sequence[Path]) -> str | None:
    """Return the manifest's only toolkit of the major that all wheels' names end in (`name_cu13-…`, `1.0+cu13`)."""
    versions = source.manifest.cuda.versions
    if len(versions) == 1:
        return None
    majors = {match[1] if (match := re.match(r".*?[_+]cu(\d+)-", path.name)) else "" for path in wheels}
    keys = [key for key, table in versions.items() if {table.toolkit.partition(".")[0]} == majors]
    if len(keys) == 1:
        return keys[0]
    say(f"note: architectures are not judged: say --cuda {' or '.join(versions)}")
    return None


def _ignored(option: str) -> Ignore:
    from gpuforge.audit import Ignore
    from gpuforge.audit.rules import RULES

    match = re.fullmatch(_IGNORE, option)
    if match is None or not match[3].strip():
        raise click.UsageError(
            f"--ignore {option}: write RULE[:GLOB]=REASON, as in GF302:lib/*=not loaded by us"
        )
    codes = [rule.CODE for rule in RULES]
    if match[1] not in codes:
        raise click.UsageError(
            f"--ignore {option}: there is no rule {match[1]}; there are {', '.join(codes)}"
        )
    return Ignore(match[1], match[3].strip(), match[2] or "*")


def _unused(report: Report, accepted: Sequence[Ignore], base: Baseline | None) -> list[str]:
    """Say which acceptances met nothing; nothing can be said when not everything was read."""
    if report.problems:
        return []
    ignored = [i for held in report.wheels for i in held.ignored]
    found = [
        f"--ignore {one.rule}{'' if one.file == '*' else ':' + one.file}={one.reason}: it accepts nothing that is found"
        for one in accepted
        if not any(one.covers(i.finding) for i in ignored)
    ]
    if base:
        from gpuforge.audit import baseline

        projects = {baseline.project_of(held.facts.name) for held in report.wheels}
        found += [
            f"in the baseline, and not found: {k}"
            for k in baseline.unused(base, ignored)
            if k.project in projects
        ]
    return found


def _write(path: Path, report: Report, base: Baseline | None) -> None:
    from gpuforge.audit import baseline

    still = [i.finding for held in report.wheels for i in held.ignored if base and i.reason == base.reason]
    findings = [*report.findings, *still]
    path.write_text(baseline.dumps(findings), encoding="utf-8")
    count = len({known for finding in findings for known in baseline.of_finding(finding)})
    say(f"{path}: lists {count} finding{'s' * (count != 1)}, which --baseline {path} accepts from now on")
