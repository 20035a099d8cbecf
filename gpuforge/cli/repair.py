"""`gpuforge repair`: the repair of `build` for a wheel that any tool built."""

import contextlib
import re
import sys
from pathlib import Path
from typing import Any

import click

from gpuforge.cli.options import FOLDER, PATH, Call, as_requirement, listed, pass_call
from gpuforge.cli.terminal import complain, result, say
from gpuforge.errors import ActionError, UsageError


@click.command("repair")
@click.argument("wheels", nargs=-1, required=True, type=PATH, metavar="WHEEL...")
@click.option(
    "--wheel-dir",
    "-w",
    "output",
    type=FOLDER,
    required=True,
    metavar="OUT",
    help="Where to write the repaired wheels.",
)
@click.option(
    "--linkage",
    type=click.Choice(["pip", "bundle", "system"]),
    default="pip",
    help="Where users get CUDA's libraries: from NVIDIA's wheels, inside this wheel, or from their own installation.",
)
@click.option(
    "--requires",
    type=click.Choice(["always", "extra"]),
    default="always",
    help="Declare NVIDIA's wheels as requirements, or as those of an extra such as cuda13. For --linkage pip.",
)
@click.option(
    "--cuda", type=int, metavar="12", help="The CUDA major, if neither its libraries nor its name show it."
)
@click.option(
    "--provided-by",
    multiple=True,
    type=as_requirement,
    metavar="REQUIREMENT",
    help="A package whose libraries the wheel uses and must not contain, with the release that it was built with, such "
    "as torch==2.11.",
)
@click.option(
    "--exclude",
    multiple=True,
    callback=listed,
    metavar="NAME",
    help="A further library that stays out, such as libmpi.",
)
@click.option(
    "--toolkit",
    type=FOLDER,
    metavar="PATH",
    help="The CUDA toolkit to bundle libraries of. Default: the installed one.",
)
@pass_call
def command(
    call: Call, /, wheels: tuple[Path, ...], output: Path, exclude: tuple[str, ...], **rest: Any
) -> int:
    """Make wheels fit for upload: libraries that other packages provide stay out, the others are put into the wheel.

    It does what `build` does after the build: search paths (RUNPATH) that lead to NVIDIA's wheels, the requirements for
    them, the platform tag, and a check that no changed file is broken. In cibuildwheel it is the repair-wheel-command.
    """
    from gpuforge.actions.repair import Choices, repair_wheel
    from gpuforge.cuda.sonames import bare

    folders = filter(None, re.split("[:;]", call.environ.get("LD_LIBRARY_PATH", "")))
    names = tuple(map(bare, exclude))
    choices = Choices(**rest, exclude=names, library_path=tuple(map(Path, folders)))
    if lacking := [str(wheel) for wheel in wheels if not wheel.is_file()]:
        raise click.UsageError(f"there is no file {', '.join(lacking)}")
    if others := [str(wheel) for wheel in wheels if wheel.suffix != ".whl"]:
        raise click.UsageError(f"not a wheel (.whl): {', '.join(others)}")
    status = 0
    for wheel in wheels:
        say(f"{wheel.name}")
        try:
            with contextlib.redirect_stdout(sys.stderr):
                made = repair_wheel(wheel, output, choices)
        except (ActionError, UsageError) as error:  # of this wheel alone
            complain(error.diagnostics)
            status = max(status, error.exit_code)
        else:
            result([f"{made}\n"])
    return status
