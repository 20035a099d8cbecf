"""The commands, and how click calls them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from gpuforge import __version__

COMMANDS = ("audit", "build", "images", "matrix", "schema")


class _Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"gpuforge.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"{error.message} It has: {', '.join(COMMANDS)}.", ctx) from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Shell completion: eval "$(_GPUFORGE_COMPLETE=bash_source gpuforge)"  (or zsh_source, fish_source)',
)
@click.version_option(__version__, prog_name="gpuforge")
def cli() -> None:
    """One TOML manifest in, GPU Python wheels out that install anywhere and cannot mix runtimes."""


def call(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for, and return the exit status. Raises KeyboardInterrupt and the commands' errors."""
    try:
        return int(cli.main(args=list(arguments), prog_name="gpuforge", standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort as stop:
        raise KeyboardInterrupt from stop
    except SystemExit as stop:  # click's only one here: nobody reads the output any more
        raise BrokenPipeError from stop
