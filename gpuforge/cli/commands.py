"""The commands, and how they are called with click."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuforge import __version__
from gpuforge.cli.arguments import Group, Outside

if TYPE_CHECKING:
    from gpuforge.cli.bounded import Within

_COMPLETION = "_GPUFORGE_COMPLETE"  # click reads it before it looks at the arguments
COMMANDS = {  # with their summaries, so that listing them imports none
    "audit": "Report what in a wheel will break on users' machines, and why.",
    "build": "Build, prove and test the wheels of a manifest.",
    "cache": "List, check and prune what is kept between builds.",
    "images": "Make, list and check the container images to build and test in.",
    "init": "Write a first gpuforge.toml for a project: its folder, its sdist or its name on PyPI.",
    "matrix": "Print the cells of a manifest for a CI system.",
    "schema": "Print the schema of gpuforge.toml.",
}


class _Commands(Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"gpuforge.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_GPUFORGE_COMPLETE=bash_source gpuforge)"  (or zsh_source, fish_source)',
)
@click.version_option(__version__, prog_name="gpuforge")
def cli() -> None:
    """Build GPU wheels for Python from one TOML manifest, and report what in a wheel would break on users' machines."""


def call(arguments: Sequence[str], within: Within | None = None) -> int:
    """Run the command in the arguments, and return the exit status. Raises KeyboardInterrupt and commands' errors."""
    try:
        status = cli.main(list(arguments), prog_name="gpuforge", standalone_mode=False, obj=Outside(within))
        return int(status or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort as stop:
        raise KeyboardInterrupt from stop
    except SystemExit as stop:  # click has completed for a shell, or the output's reader is gone
        if os.environ.get(_COMPLETION) and isinstance(stop.code, int):
            return stop.code
        raise BrokenPipeError from stop
