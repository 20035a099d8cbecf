"""`gpuforge audit`: judge finished wheels, one by one and together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from gpuforge.cli.arguments import FOLDER, PATH, Outside, errors_as_json, pass_outside

if TYPE_CHECKING:
    from gpuforge.audit.judge import Ignore
    from gpuforge.cli.audit_run import Options
    from gpuforge.cli.bounded import Watched

_PYTHON = r"3\.\d{1,2}"
_IGNORE = r"(?s)(GF\d{3})(?::([^=]+))?=(.+)"


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
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
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
    default=None,
    show_default="the processors of this machine",
    help="Number of threads that read files.",
)
@pass_outside
@errors_as_json
def command(outside: Outside, /, ignore: tuple[str, ...], **rest: Any) -> int:
    """Check wheels: runtimes that would clash in one process, libraries that nothing provides, search paths, GPU
    architectures, platform tags. Wheels given together may provide libraries for each other.

    WHEEL is a wheel, a folder with wheels somewhere below it, an unpacked wheel, an environment or its site-packages
    folder, an sdist that has wheels in it, or one binary (.so, .fatbin, .cubin, .ptx, a program).

    Exit status: 0 nothing at or above --fail-on; 1 findings; 2 the command line or the manifest is wrong, or the audit
    could not read an input.
    """

    def judge(watched: Watched | None) -> int:
        from gpuforge.cli import audit_run

        options = audit_run.Options(**rest, accepted=tuple(map(_ignored, ignore)))
        return audit_run.run(_consistent(options), watched)

    return outside.within(judge) if outside.within else judge(None)


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


def _ignored(option: str) -> Ignore:
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
