"""The program `gpuforge`: collects the commands, and turns every failure into a message and an exit code."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from gpuforge import __version__
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError

COMMANDS = ("audit", "build", "images", "matrix", "schema")
INTERRUPTED = 130
UNREAD = 141  # as the shell says of what SIGPIPE has ended
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: gpuforge's own fault


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with the status that the README lists."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as CI systems cancel: what Ctrl-C does
    status = run(arguments)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what ends now has nobody left to tell of an interrupt
    gc.freeze()  # or the interpreter looks through everything once more before it ends
    sys.exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; no exception leaves it."""
    try:
        return int(cli.main(args=arguments, prog_name="gpuforge", standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        say("interrupted; what was finished is kept")
        return INTERRUPTED
    except SystemExit:  # click's only one here, with the status of findings: nobody reads the output any more
        drop_output()
        return UNREAD
    except GpuforgeError as error:
        complain(error.diagnostics)
        return error.exit_code
    except OSError as error:
        complain([of_os_error(error)])
        return 3 if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS} else 2
    except Exception:  # noqa: BLE001  the last resort: a fault of ours, told as one
        return _internal()


def drop_output() -> None:
    """Write no more results: their reader went away, as `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def complain(diagnostics: Sequence[Diagnostic]) -> None:
    """Write diagnostics to stderr, each as `error: place: message` and its hint."""
    for diagnostic in diagnostics:
        head, *hint = str(diagnostic).split("\n  hint: ", 1)
        click.secho("error: ", fg="red", bold=True, nl=False, err=True)
        click.echo(head, err=True)
        for text in hint:
            click.echo(f"  hint: {text}", err=True)
    if len(diagnostics) > 1:
        click.echo(f"{len(diagnostics)} errors", err=True)


def of_os_error(error: OSError) -> Diagnostic:
    """Say what the machine refused, and what to do about it."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    # Of two paths, a copy's source and target, the second is where there is no room.
    where = (error.filename2 if full else None) or error.filename
    room = "free some space (`df -h` shows which disk is full), or take another disk: "
    room += "--output, GPUFORGE_CACHE_DIR and GPUFORGE_WORK name what is written; what is finished is kept"
    hints = {
        errno.ENOSPC: room,
        errno.EDQUOT: room,
        errno.EACCES: "check who may write there",
        errno.EROFS: "choose a folder that can be written",
    }
    message = "the disk is full" if full and not where else f"{where or 'a file'}: {error.strerror or error}"
    return Diagnostic(message, hint=hints.get(error.errno or 0, ""))


def say(message: str) -> None:
    """Write one line to stderr."""
    click.echo(message, err=True)


def _internal() -> int:
    if os.environ.get("GPUFORGE_DEBUG"):
        import traceback

        traceback.print_exc()
    kind, value, _ = sys.exc_info()
    complain(
        [
            Diagnostic(
                f"gpuforge itself failed: {kind.__name__ if kind else ''}: {value}",
                hint="this is a bug; run again with GPUFORGE_DEBUG=1 and report what it prints",
            )
        ]
    )
    return INTERNAL
