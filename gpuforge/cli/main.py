"""The program `gpuforge`: runs a command, and turns every failure into a message and a status."""

import errno
import importlib
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

from gpuforge import __version__
from gpuforge.cli.options import Call, Group
from gpuforge.cli.terminal import complain, drop_output, say
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError

INTERRUPTED = 130
UNREAD = 141  # a shell's status for a program that SIGPIPE ended
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: a bug of gpuforge
_COMPLETION = "_GPUFORGE_COMPLETE"  # click reads it before it looks at the arguments
COMMANDS = {  # with their summaries, so that listing them imports none
    "audit": "Report what in a wheel will break on users' machines, and why.",
    "build": "Build, prove and test the wheels of a manifest.",
    "cache": "List, check and prune what is kept between builds.",
    "doctor": "Say what this machine can build, test and audit, and how to mend what is missing.",
    "images": "Make, list and check the container images to build and test in.",
    "index": "Make a package index of wheels, with a folder for each CUDA and torch, or add to one.",
    "init": "Write a first gpuforge.toml for a project: its folder, its sdist or its name on PyPI.",
    "matrix": "Print the cells of a manifest for a CI system.",
    "repair": "Make wheels that any tool built fit for upload: libraries, search paths, requirements, tags.",
    "rule": "Explain a finding of the audit: what it is, why it breaks, how to mend it.",
    "schema": "Print the schema of gpuforge.toml.",
    "shell": "Open a shell where the failed action of a cell ran.",
    "test": "Install wheels into an empty environment, import them, and run their tests.",
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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    epilog='Shell completion: eval "$(_GPUFORGE_COMPLETE=bash_source gpuforge)"  (or zsh_source, fish_source)',
)
@click.version_option(__version__, prog_name="gpuforge")
def cli() -> None:
    """Build GPU wheels for Python from one TOML manifest, and report what in a wheel would break on users' machines."""


def main() -> None:
    """Run the program and exit with a status of the README's list."""
    try:
        # CI systems cancel with it: treated as Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        status = run(call=Call(limited=True))
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt was already reported
    except KeyboardInterrupt:  # a second one, while `run` reported the first
        status = INTERRUPTED
    sys.exit(status)


def run(arguments: Sequence[str] | None = None, call: Call | None = None) -> int:
    """Run the command in the arguments and return the exit status; no exception leaves it."""
    call = call or Call()
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return int(cli.main(list(arguments), prog_name="gpuforge", standalone_mode=False, obj=call) or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return INTERRUPTED
    except SystemExit as stop:  # click has completed for a shell, or the output's reader is gone
        if call.environ.get(_COMPLETION) and isinstance(stop.code, int):
            return stop.code
        drop_output(1, 2)
        return UNREAD
    except BrokenPipeError:
        drop_output(1, 2)
        return UNREAD
    except GpuforgeError as error:
        if call.json:
            click.echo(json.dumps(error_data(error), indent=2))
        complain(error.diagnostics)
        return error.exit_code
    except OSError as error:
        complain([of_os_error(error)])
        return 3 if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS} else 2
    except Exception as error:  # noqa: BLE001  the last resort: a fault of ours, told as one
        return _internal(error, call)


def error_data(error: GpuforgeError) -> dict[str, Any]:
    """Return an error as plain data (schema 1): the exit status, and each diagnostic with its place."""
    diagnostics = [
        {
            "message": each.message,
            "file": each.place.file if each.place else None,
            "line": (each.place.line or None) if each.place else None,
            "column": (each.place.column or None) if each.place else None,
            "hint": each.hint,
        }
        for each in error.diagnostics
    ]
    return {"schema": 1, "status": error.exit_code, "diagnostics": diagnostics}


def of_os_error(error: OSError) -> Diagnostic:
    """Return an error of the operating system with a hint."""
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    # If an error has two paths, those of a copy, the disk of the second one is full.
    where = (error.filename2 if full else None) or error.filename
    room = "free some space (`df -h` shows which disk is full), or use another disk: "
    room += "--output, GPUFORGE_CACHE_DIR and GPUFORGE_WORK name the folders that are written; finished work is kept"
    hints = {
        errno.ENOSPC: room,
        errno.EDQUOT: room,
        errno.EACCES: "check who may write there",
        errno.EROFS: "choose a folder that can be written",
    }
    message = "the disk is full" if full and not where else f"{where or 'a file'}: {error.strerror or error}"
    return Diagnostic(message, hint=hints.get(error.errno or 0, ""))


def _internal(error: Exception, call: Call) -> int:
    if call.environ.get("GPUFORGE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    hint = "this is a bug; run again with GPUFORGE_DEBUG=1 and report what it prints"
    complain([Diagnostic(f"gpuforge itself failed: {type(error).__name__}: {error}", hint=hint)])
    return INTERNAL
