"""`gpuforge audit`: judge finished wheels, one by one and together."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from gpuforge.cli.folders import unwritable
from gpuforge.cli.options import FOLDER, PATH, Call, errors_as_json, pass_call
from gpuforge.cli.terminal import complain, drop_output, in_color, result, say
from gpuforge.diagnostics import Diagnostic, shown
from gpuforge.errors import MissingError, UsageError

if TYPE_CHECKING:
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Baseline
    from gpuforge.audit.judge import Ignore, Report
    from gpuforge.audit.read.input import Beside, Input
    from gpuforge.cli.bounded import Watched
    from gpuforge.expectation import Expectation
    from gpuforge.manifest.load import ManifestFile

Failing = Literal["error", "warning"]
_PYTHON = r"3\.\d{1,2}"
_IGNORE = r"(?s)(GF\d{3})(?::([^=]+))?=(.+)"
_SECONDS, _BYTES_A_SECOND = 600, 100_000  # limits for an index that sends wheels
_DOWNLOADS = 4  # wheels that are downloaded at the same time


class Options(NamedTuple):
    """The options of the command line; the defaults are the command's."""

    wheels: tuple[Path, ...]
    form: str = "text"
    show_tree: bool = False
    show_gpus: bool = False
    manifest: Path | None = None
    cuda: str | None = None
    expect: str | None = None
    fail_on: Failing = "error"
    accepted: tuple[Ignore, ...] = ()
    baseline: Path | None = None
    write: Path | None = None
    jobs: int | None = None  # None is one for each processor of this machine
    against: str | None = None
    verbose: bool = False
    hashes: bool = False
    environment: Path | None = None
    requirements: tuple[str, ...] = ()  # --with
    python: str | None = None
    html: Path | None = None
    like: str | None = None


@click.command("audit")
@click.argument("wheels", nargs=-1, type=PATH, metavar="WHEEL...")
@click.option(
    "--env",
    "environment",
    type=FOLDER,
    metavar="PATH",
    help="Audit the wheels in one process with the packages of this environment.",
)
@click.option(
    "--with",
    "requirements",
    multiple=True,
    metavar="REQUIREMENT",
    help="Audit the wheels in one process with what pip would install for this requirement, such as jax[cuda12].",
)
@click.option(
    "--python",
    metavar="3.12",
    help="The Python that --with chooses packages for. Default: the environment's, else that of the wheels.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "junit", "markdown"]),
    default="text",
    callback=errors_as_json,
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
    type=PATH,
    metavar="FILE",
    help="Also check what this gpuforge.toml declares: roles, architectures, kernel sets.",
)
@click.option(
    "--cuda",
    metavar="KEY",
    help="The [cuda.KEY] of the manifest that the wheels were built with, if their names do not show it.",
)
@click.option(
    "--expect",
    metavar="80,90a,120+ptx",
    help="GPU architectures that the wheels should have, if there is no manifest.",
)
@click.option(
    "--against",
    metavar="WHAT",
    help="Report libraries that a user's own build with WHAT would load a second time: a compiler (nvhpc@24.9, or its "
    "path), toolkit:FOLDER, or a folder of libraries.",
)
@click.option(
    "--like",
    "--compare",
    metavar="WHAT",
    help="Compare with other wheels of the package, and report what is missing here: a wheel, a folder, or a "
    "requirement such as cupy-cuda13x==14.2 for the wheel that pip would install.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    help="The lowest severity that gives exit status 1.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE[:GLOB]=REASON",
    help="Accept findings of a rule, for all files or those that match; the report repeats the reason.",
)
@click.option(
    "--baseline",
    "baseline",
    type=PATH,
    metavar="FILE",
    help="Accept the findings that this file lists, and no new ones.",
)
@click.option(
    "--write-baseline",
    "write",
    type=PATH,
    metavar="FILE",
    help="List the findings in this file, and accept them.",
)
@click.option(
    "--html",
    type=PATH,
    metavar="FILE",
    help="Also write the report as one page: findings with their pages, a picture of what loads what, bytes by GPU "
    "architecture.",
)
@click.option(
    "--verbose",
    is_flag=True,
    help="Also show findings for information, and every file of each finding; text only.",
)
@click.option(
    "--hashes",
    is_flag=True,
    help="Also compare the files with the hashes in RECORD; this about doubles the time.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    show_default="the processors of this machine",
    help="Number of threads that read files.",
)
@pass_call
def command(call: Call, /, ignore: tuple[str, ...], **rest: Any) -> int:
    """Check wheels: runtimes that would clash in one process, libraries that nothing provides, search paths, GPU
    architectures, platform tags. Wheels given together may provide libraries for each other.

    WHEEL is a wheel, a folder with wheels somewhere below it, an unpacked wheel, an environment or its site-packages
    folder, an sdist that has wheels in it, or one binary (.so, .fatbin, .cubin, .ptx, a program).

    Exit status: 0 nothing at or above --fail-on; 1 findings; 2 the command line or the manifest is wrong, or the audit
    could not read an input.
    """

    from gpuforge.cli import bounded

    options = _consistent(Options(**rest, accepted=tuple(map(ignored, ignore))))
    if not call.limited:
        return run(options, call.environ)
    return bounded.run(lambda watched: run(options, call.environ, watched))


def _consistent(options: Options) -> Options:
    """Return the options; raises UsageError for those that exclude each other."""
    if not (options.wheels or options.environment or options.requirements):
        raise click.UsageError("Missing argument 'WHEEL...': give wheels, --env or --with")
    if options.python and not options.requirements:
        raise click.UsageError("--python is only for --with")
    if options.python and not re.fullmatch(_PYTHON, options.python):
        raise click.UsageError(f"--python {options.python}: expected a version such as 3.12")
    if options.cuda and not options.manifest:
        raise click.UsageError("--cuda names a table of the manifest: give --manifest too")
    if (options.show_tree or options.show_gpus) and options.form in {"sarif", "junit"}:  # json has all of it
        raise click.UsageError("--tree and --gpus are for text, markdown and json")
    if options.expect and options.manifest:
        raise click.UsageError("--expect is for wheels without a manifest: the manifest says what to expect")
    return options


def ignored(option: str) -> Ignore:
    """Return what `--ignore` accepts; raises click.UsageError."""
    from gpuforge.audit.judge import Ignore
    from gpuforge.audit.rules import RULES

    match = re.fullmatch(_IGNORE, option)
    if match is None or not match[3].strip():
        raise click.UsageError(
            f"--ignore {option}: write RULE[:GLOB]=REASON, as in GF302:lib/*=not loaded by us"
        )
    codes = [rule.code for rule in RULES]
    if match[1] not in codes:
        raise click.UsageError(
            f"--ignore {option}: there is no rule {match[1]}; there are {', '.join(codes)}"
        )
    return Ignore(match[1], match[3].strip(), match[2] or "*")


def run(options: Options, environ: Mapping[str, str], watched: Watched | None = None) -> int:
    """Judge the wheels, write the report, and return the exit status."""
    from gpuforge.audit import audit, baseline
    from gpuforge.audit.findings import at_least

    if options.html and (reason := unwritable(options.html.parent)):
        raise MissingError.of(
            f"{options.html} cannot be written: {reason}", hint="name another file with --html"
        )
    beside = _beside(options, environ, watched)
    base = baseline.read(options.baseline) if options.baseline else None
    jobs = options.jobs or max(len(os.sched_getaffinity(0)), _DOWNLOADS if beside.wheels else 1)
    like = _like(options, watched, jobs) if options.like else None
    report = audit(
        options.wheels,
        expectation=_expectation(options),
        against=_against(options.against) if options.against else None,
        ignore=[*options.accepted, *([base] if base else [])],
        jobs=(watched and watched.jobs) or jobs,
        watch=watched,
        hashes=options.hashes,
        beside=beside,
        like=like,
    )
    unused = _unused(report, options.accepted, base)
    if options.html:
        from gpuforge import disk
        from gpuforge.audit.report import html_page

        disk.write_text(options.html, html_page.render(report))
    try:
        result(_pieces(report, options, unused, environ))
    except BrokenPipeError:  # the findings are the same
        drop_output(1)
    problems = []
    for problem in report.problems:
        place = problem.place and problem.place._replace(file=shown(problem.place.file))
        problems.append(Diagnostic(shown(problem.message), place, problem.hint))
    complain(problems)
    alone = [one.facts.name for one in report.wheels if not one.facts.neighbour] if like else []
    for name in (name for name in alone if name not in report.graph.like):
        say(f"note: {shown(name)} was not compared: --like has no wheel of its project")
    for text in unused:
        say(f"note: {shown(text)}")
    if report.problems:
        if options.write:
            say(f"note: {options.write} was not written, as not everything could be read")
        return 2
    if options.write:
        _write(options.write, report, base)
        return 0
    return int(report.worst() in at_least(options.fail_on))


def _like(options: Options, watched: Watched | None, jobs: int) -> Report:
    """Return the report about the wheels of --like; raises UsageError if they cannot be read."""
    from gpuforge.audit import audit

    text = options.like or ""
    path = Path(text)
    given: list[Path | Input] = [path]
    size = sum(each.stat().st_size for each in (path, *path.rglob("*.whl"))) if path.exists() else 0
    if not (size or "/" in text or text.endswith(".whl")):
        from gpuforge.cli.audit_with import published

        wheels = published(text, options.wheels)
        given, size = [*wheels], sum(one.size for one in wheels)
        if watched:
            watched.wait_at_most(_SECONDS + size / _BYTES_A_SECOND)
    with watched.unpacking(size, 1) if watched else contextlib.nullcontext():
        report = audit(given, jobs=max(jobs, _DOWNLOADS))
    if report.problems:
        raise UsageError.all_of(report.problems)
    return report


def _against(text: str) -> Against:
    from gpuforge.audit import against

    return against.parse(text)


def _beside(options: Options, environ: Mapping[str, str], watched: Watched | None) -> Beside:
    """Return what is in the process of the wheels: the environment of --env, and the wheels of --with."""
    from gpuforge.audit.read.input import ALONE, Beside

    beside = Beside(options.environment) if options.environment else ALONE
    if options.requirements:
        from gpuforge.cli.audit_with import installed_with

        beside = installed_with(options.wheels, options.requirements, options.environment, options.python)
        if watched:
            size = sum(one.remote.size for one in beside.wheels if one.remote)
            watched.wait_at_most(_SECONDS + size / _BYTES_A_SECOND)
    if options.environment:
        folders = filter(None, re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")))
        beside = beside._replace(library_path=tuple(map(Path, folders)))
    return beside


def _expectation(options: Options) -> Expectation | None:
    """Return the expectation of --manifest or --expect; raises UsageError."""
    if options.manifest:
        from gpuforge.manifest.load import load
        from gpuforge.plan.expectation import expectation
        from gpuforge.wheel.filename import machine_of

        source = load(options.manifest, for_building=False)
        machine = machine_of(wheel.name for wheel in options.wheels)
        return expectation(source, options.cuda or _cuda_of(source, options.wheels), machine)
    if options.expect:
        from gpuforge.expectation import expecting

        return expecting(options.expect)
    return None


def _pieces(
    report: Report, options: Options, unused: Sequence[str], environ: Mapping[str, str]
) -> Iterable[str]:
    match options.form:
        case "json":
            from gpuforge.audit.report import data

            return data.pieces(report, unused)
        case "sarif":
            from gpuforge.audit.report import sarif

            return sarif.pieces(report)
        case "junit":
            from gpuforge.audit.report import junit

            return [junit.dumps(report, fail_on=options.fail_on)]
    also = {"show_tree": options.show_tree, "show_gpus": options.show_gpus}
    if options.form == "markdown":
        from gpuforge.audit.report import markdown

        return [markdown.render(report, **also)]
    from gpuforge.audit.report import text

    color = in_color(sys.stdout)
    return [text.render(report, width=_width(environ), color=color, verbose=options.verbose, **also)]


def _width(environ: Mapping[str, str]) -> int:
    """Return the columns of the terminal, also if its output is piped; 80 without one."""
    if re.fullmatch(r"[1-9][0-9]{0,5}", columns := environ.get("COLUMNS", "")):
        return int(columns)
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(descriptor).columns or 80
    return 80


def _cuda_of(source: ManifestFile, wheels: Sequence[Path]) -> str | None:
    """Return the manifest's only toolkit of the major that all wheels are named for (`name_cu13-…`, `1.0+cu13`)."""
    from gpuforge.cuda.suffix import major_of_local, major_of_suffix
    from gpuforge.cuda.version import major_of
    from gpuforge.wheel.filename import claims

    versions = source.manifest.cuda.versions
    if len(versions) <= 1 or source.manifest.wheel.kernels == "own":
        return None
    names = [claims(path.name) for path in wheels]
    majors = {major_of_local(version) or major_of_suffix(project) for project, version, _ in names}
    keys = [key for key, table in versions.items() if {major_of(table.toolkit)} == majors]
    if len(keys) == 1:
        return keys[0]
    say(f"note: architectures are not checked: give --cuda {' or '.join(versions)}")
    return None


def _unused(report: Report, accepted: Sequence[Ignore], base: Baseline | None) -> list[str]:
    """Return the acceptances that matched no finding; none if not everything was read."""
    if report.problems:
        return []
    ignored = [i for wheel in report.wheels for i in wheel.ignored]
    found = [
        f"--ignore {one.rule}{'' if one.file == '*' else ':' + one.file}={one.reason}: no finding matches it"
        for one in accepted
        if not any(one.covers(i.finding) for i in ignored)
    ]
    if base:
        from gpuforge.audit import baseline

        projects = {wheel.facts.known_as for wheel in report.wheels}
        found += [
            f"in the baseline, but no longer found: {baseline.line(k)}"
            for k in baseline.unused(base, ignored)
            if k.project in projects
        ]
    return found


def _write(path: Path, report: Report, base: Baseline | None) -> None:
    from gpuforge.audit import baseline

    still = [i.finding for wheel in report.wheels for i in wheel.ignored if base and i.reason == base.reason]
    findings = [*report.findings, *still]
    path.write_text(baseline.dumps(findings), encoding="utf-8")
    count = len(findings)
    say(f"{path}: lists {count} finding{'s' * (count != 1)}, which --baseline {path} accepts from now on")
