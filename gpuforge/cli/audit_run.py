"""Runs `gpuforge audit` after its options are read: judges, reports, and returns the exit status."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpuforge.audit import audit
from gpuforge.audit.read.input import ALONE, Beside
from gpuforge.cli.terminal import complain, drop_output, in_color, result, say
from gpuforge.cuda.suffix import major_of_local, major_of_suffix
from gpuforge.cuda.version import major_of
from gpuforge.diagnostics import Diagnostic, shown
from gpuforge.wheel.filename import claims

if TYPE_CHECKING:
    from gpuforge.audit.against import Against
    from gpuforge.audit.baseline import Baseline
    from gpuforge.audit.judge import Ignore, Report
    from gpuforge.cli.bounded import Watched
    from gpuforge.expectation import Expectation
    from gpuforge.manifest.load import ManifestFile

Failing = Literal["error", "warning"]
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


def run(options: Options, watched: Watched | None = None) -> int:
    """Judge the wheels, write the report, and return the exit status."""
    beside = Beside(options.environment) if options.environment else ALONE
    if options.requirements:
        from gpuforge.cli.audit_with import installed_with

        beside = installed_with(options.wheels, options.requirements, options.environment, options.python)
        if watched:
            size = sum(one.remote.size for one in beside.wheels if one.remote)
            watched.wait_at_most(_SECONDS + size / _BYTES_A_SECOND)
    if options.environment:
        folders = filter(None, re.split("[:;]", os.environ.get("LD_LIBRARY_PATH", "")))
        beside = beside._replace(library_path=tuple(map(Path, folders)))
    downloads = _DOWNLOADS if beside.wheels else 1
    base = _base(options.baseline) if options.baseline else None
    report = audit(
        options.wheels,
        expectation=_expectation(options),
        against=_against(options.against) if options.against else None,
        ignore=[*options.accepted, *([base] if base else [])],
        jobs=(watched and watched.jobs) or options.jobs or max(len(os.sched_getaffinity(0)), downloads),
        watch=watched,
        hashes=options.hashes,
        beside=beside,
    )
    unused = _unused(report, options.accepted, base)
    try:
        result(_pieces(report, options, unused))
    except BrokenPipeError:  # the findings are the same
        drop_output(1)
    complain([_on_one_line(problem) for problem in report.problems])
    for text in unused:
        say(f"note: {shown(text)}")
    if report.problems:
        if options.write:
            say(f"note: {options.write} was not written, as not everything could be read")
        return 2
    if options.write:
        _write(options.write, report, base)
        return 0
    from gpuforge.audit.findings import at_least

    return int(report.worst() in at_least(options.fail_on))


def _on_one_line(problem: Diagnostic) -> Diagnostic:
    place = problem.place and problem.place._replace(file=shown(problem.place.file))
    return Diagnostic(shown(problem.message), place, problem.hint)


def _expectation(options: Options) -> Expectation | None:
    """Return the expectation of --manifest or --expect; raises UsageError."""
    if options.manifest:
        from gpuforge.plan.expectation import expectation

        source = _load(options.manifest)
        return expectation(source, options.cuda or _cuda_of(source, options.wheels))
    if options.expect:
        from gpuforge.audit.expected_archs import expecting

        return expecting(options.expect)
    return None


def _pieces(report: Report, options: Options, unused: Sequence[str]) -> Iterable[str]:
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
        case "markdown":
            from gpuforge.audit.report import markdown

            return [markdown.render(report, show_tree=options.show_tree, show_gpus=options.show_gpus)]
        case _:
            from gpuforge.audit.report import text

            return [
                text.render(
                    report,
                    width=_width(),
                    color=in_color(sys.stdout),
                    verbose=options.verbose,
                    show_tree=options.show_tree,
                    show_gpus=options.show_gpus,
                )
            ]


def _width() -> int:
    """Return the columns of the terminal, also if its output is piped; 80 without one."""
    if re.fullmatch(r"[1-9][0-9]{0,5}", columns := os.environ.get("COLUMNS", "")):
        return int(columns)
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(descriptor).columns or 80
    return 80


def _base(file: Path) -> Baseline:
    from gpuforge.audit import baseline

    return baseline.read(file)


def _against(text: str) -> Against:
    from gpuforge.audit import against

    return against.parse(text)


def _load(manifest: Path) -> ManifestFile:
    from gpuforge.manifest.load import load
    from gpuforge.plan.architectures import spelled_out

    return spelled_out(load(manifest, alone=True))


def _cuda_of(source: ManifestFile, wheels: Sequence[Path]) -> str | None:
    """Return the manifest's only toolkit of the major that all wheels are named for (`name_cu13-…`, `1.0+cu13`)."""
    versions = source.manifest.cuda.versions
    if len(versions) <= 1 or source.manifest.wheel.kernels == "own":
        return None
    majors = {_cuda_major(path.name) for path in wheels}
    keys = [key for key, table in versions.items() if {major_of(table.toolkit)} == majors]
    if len(keys) == 1:
        return keys[0]
    say(f"note: architectures are not checked: give --cuda {' or '.join(versions)}")
    return None


def _cuda_major(wheel: str) -> int | None:
    """Return the CUDA major in a wheel's local version or project name, by the file name; None without one."""
    project, version, _ = claims(wheel)
    return major_of_local(version) or major_of_suffix(project)


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
    count = len({subject for finding in findings for subject in baseline.of_finding(finding)})
    say(f"{path}: lists {count} finding{'s' * (count != 1)}, which --baseline {path} accepts from now on")
