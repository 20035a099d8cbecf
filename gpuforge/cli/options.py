"""Options that several commands share, and what a command gets from its caller."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuforge.cache_folder import cache_folder
from gpuforge.manifest.sizes import size_in_bytes

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from gpuforge.containers.images import Images

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Call:
    """One call of the program: its environment variables, which are read here only, and whether errors are JSON, too.

    The program's own calls are `limited`: an audit runs in a process with limits. Tests give other `images` than the
    engine's.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    limited: bool = False
    images: Images | None = None
    json: bool = False

    @property
    def cache(self) -> Path:
        """The folder that is kept between runs: GPUFORGE_CACHE_DIR, else the user's cache folder."""
        return cache_folder(self.environ).absolute()


pass_call = click.make_pass_decorator(Call, ensure=True)


class Group(click.Group):
    """A group of commands that suggests names for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names; raises UsageError with the nearest names."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0].lower(), names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


class _FilePath(click.Path):
    """A path. The empty text, as from an unset variable of a shell, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty: is a variable of the shell unset? `.` is this folder", param, ctx)
        return super().convert(value, param, ctx)


def as_size(text: str) -> int:
    """Return a size in bytes, written as in a manifest: "8 GB", "512 MiB"."""
    try:
        return size_in_bytes(text)
    except ValueError:
        raise click.BadParameter(f'{text!r} is not a size such as "8 GB" or "512 MiB"') from None


def as_duration(text: str) -> float:
    """Return a duration in seconds, written as `90m`, `5h30m`, `30d` or `2w`."""
    if not re.fullmatch(r"([0-9]{1,6} ?[mhdw])+", text):
        raise click.BadParameter(f"{text!r} is not a duration such as 5h30m, 30d or 2w")
    units = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"([0-9]+) ?([mhdw])", text))


def as_requirement(text: str) -> Requirement:
    """Return a requirement by name, such as torch==2.11."""
    from gpuforge.requirements import requirement_by_name

    try:
        return requirement_by_name(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}: write a name and versions, as in 'torch==2.11'") from None


PATH = _FilePath(path_type=Path)
FOLDER = _FilePath(path_type=Path, file_okay=False)


def errors_as_json(ctx: click.Context, parameter: click.Parameter, value: bool | str) -> bool | str:
    """Make errors of the command JSON, too, if its result is (`--json`, `--format json`): a callback of the option."""
    ctx.ensure_object(Call).json = value in {True, "json"}
    return value


def listed(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split `--cuda 11,12 --cuda 13` into its items, in order, each once."""
    items = [item.strip() for text in value for item in text.split(",")]
    return tuple(dict.fromkeys(item for item in items if item))


as_json = click.option("--json", "as_json", is_flag=True, callback=errors_as_json, help="Print it as JSON.")
images = click.option(
    "--image",
    "images",
    multiple=True,
    callback=listed,
    metavar="NAME",
    help="Container images to build in, instead of the manifest's [wheel] image.",
)


allow_missing = click.option(
    "--allow-missing",
    is_flag=True,
    help="Leave out what this machine or its images cannot build, without exit status 3.",
)
archs = click.option(
    "--archs",
    multiple=True,
    callback=listed,
    metavar="90,90a",
    help="Only these of the manifest's GPU architectures, for a quick try.",
)


def selection(command: F) -> F:
    """Add PATH and the options that choose cells: with `allow_missing`, the fields of `plan.cell.Choice`."""
    several: dict[str, Any] = {"multiple": True, "callback": listed}
    for decorate in (
        click.option("--cell", metavar="ID", help="Only this cell, as `gpuforge matrix` names it."),
        archs,
        click.option(
            "--axis",
            multiple=True,
            metavar="NAME=VALUE",
            help="Only this value of one of the manifest's [axes]; may be repeated.",
        ),
        click.option(
            "--machine", metavar="aarch64", help="Only these machine types of [wheel] machines.", **several
        ),
        click.option("--python", metavar="3.11,3.13", help="Only these Python versions.", **several),
        click.option("--cuda", metavar="11,12", help="Only these toolkits: 12 is every 12.x.", **several),
        click.argument("path", type=PATH, default=Path()),
    ):
        command = decorate(command)
    return command
