"""Shared functions of all commands: refuse empty paths, suggest names, print errors as JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import click

from gpuforge.errors import GpuforgeError

if TYPE_CHECKING:
    from gpuforge.cli.bounded import Within
    from gpuforge.containers.images import Images

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class Outside(NamedTuple):
    """The caller's objects for the commands: the process of an audit, and images of another engine."""

    within: Within | None = None
    images: Images | None = None


pass_outside = click.make_pass_decorator(Outside, ensure=True)


class _FilePath(click.Path):
    """A path. The empty text, as from an unset variable of a shell, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty: is a variable of the shell unset? `.` is this folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = _FilePath(path_type=Path)
FOLDER = _FilePath(path_type=Path, file_okay=False)


def errors_as_json(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Make a command print its errors as JSON, too, if JSON is requested (`--json`, `--format json`)."""

    @functools.wraps(function)
    def reporting(*args: Arguments.args, **options: Arguments.kwargs) -> Returned:
        try:
            return function(*args, **options)
        except GpuforgeError as error:
            if options.get("as_json") or options.get("form") == "json":
                click.echo(json.dumps(error_data(error), indent=2))
            raise

    return reporting


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


class Group(click.Group):
    """A group of commands that suggests names for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names; raises UsageError with the nearest names."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            near = get_close_matches(args[0].lower(), names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)
