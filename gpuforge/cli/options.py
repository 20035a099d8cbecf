"""Options that several commands share."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from gpuforge import cache_folder
from gpuforge.cli.arguments import PATH
from gpuforge.manifest.sizes import size_in_bytes

F = TypeVar("F", bound=Callable[..., Any])


class _Size(click.ParamType[int]):
    """A size in bytes, written as in a manifest: "8 GB", "512 MiB"."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return size_in_bytes(str(value))
        except ValueError:
            self.fail(f'{value!r} is not a size such as "8 GB" or "512 MiB"', param, ctx)


class _Duration(click.ParamType[float]):
    """A duration in seconds, written as `90m`, `12h`, `30d` or `2w`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]{1,6}) ?([mhdw])", str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration such as 12h, 30d or 2w", param, ctx)
        return int(match[1]) * {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}[match[2]]


SIZE = _Size()
DURATION = _Duration()


def listed(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split `--cuda 11,12 --cuda 13` into its items, in order, each once."""
    items = [item.strip() for text in value for item in text.split(",")]
    return tuple(dict.fromkeys(item for item in items if item))


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's choice: PATH, --cuda, --python, --axis, --archs and --cell."""

    path: Path
    cuda: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    axis: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    cell: str | None = None


def selection(function: Callable[..., None]) -> Callable[..., None]:
    """Add PATH and the options that choose cells of a manifest; the command gets them as one `choice`."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> None:
        chosen = {each.name: options.pop(each.name) for each in fields(Choice)}
        function(*arguments, choice=Choice(**chosen), **options)

    for decorate in (
        click.option("--cell", metavar="ID", help="Only this cell, as `gpuforge matrix` names it."),
        click.option(
            "--archs",
            multiple=True,
            callback=listed,
            metavar="90,90a",
            help="Only these of the manifest's GPU architectures, for a quick try.",
        ),
        click.option(
            "--axis",
            multiple=True,
            metavar="NAME=VALUE",
            help="Only this value of one of the manifest's [axes]; may be repeated.",
        ),
        click.option(
            "--python",
            multiple=True,
            callback=listed,
            metavar="3.11,3.13",
            help="Only these Python versions.",
        ),
        click.option(
            "--cuda",
            multiple=True,
            callback=listed,
            metavar="11,12",
            help="Only these toolkits: 12 is every 12.x.",
        ),
        click.argument("path", type=PATH, default=Path()),
    ):
        command = decorate(command)
    return command


images = click.option(
    "--image",
    "images",
    multiple=True,
    callback=listed,
    metavar="NAME",
    help="Container images to build in, instead of the manifest's [wheel] image.",
)


CACHE_VARIABLE = cache_folder.VARIABLE


def cache_dir() -> Path:
    """Return the folder that is kept between runs: GPUFORGE_CACHE_DIR, else the user's cache folder."""
    return cache_folder.cache_folder(os.environ)
