"""`gpuforge images`: the container images of builds and tests; which there are, make them, check one."""

import json
import platform
import time
from typing import Any

import click

from gpuforge.cli.options import Call, Group, as_json, pass_call
from gpuforge.cli.terminal import results_console, say
from gpuforge.containers import catalog
from gpuforge.containers.catalog import CatalogImage
from gpuforge.containers.image_reference import refuse_name, refuse_pull
from gpuforge.containers.images import EngineImage, Images
from gpuforge.errors import MissingError, UsageError
from gpuforge.wheel.filename import LinuxTag

_of_machine = click.option(
    "--machine",
    type=click.Choice(["x86_64", "aarch64"]),
    default=platform.machine,
    help="The machine type of the images. Default: this machine's.",
)


@click.group("images", cls=Group)
def command() -> None:
    """List, build and check the container images of builds and tests."""


@command.command("list")
@_of_machine
@as_json
@pass_call
def list_images(call: Call, as_json: bool, machine: str) -> None:
    """List the images, and which of them are on this machine.

    `[wheel] image` in a manifest takes one of these names, or any other image's reference.
    """
    engine: Images | None = None
    try:
        engine = connected(call)
    except MissingError as error:  # the list is correct without an engine, too
        say(f"cannot list the images of this machine: {error.diagnostics[0].message}")
    entries = [(image, engine.find(image.reference) if engine else None) for image in catalog.images(machine)]
    if as_json:
        data = [image_data(image, found) for image, found in entries]
        click.echo(json.dumps({"schema": 1, "engine": engine is not None, "images": data}, indent=2))
    else:
        table(entries, has_engine=engine is not None)


@command.command("build")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--network", metavar="NAME", help="The engine's network for the build, such as host.")
@_of_machine
@pass_call
def build(call: Call, names: tuple[str, ...], network: str | None, machine: str) -> None:
    """Make or pull the images NAME... that are not on this machine.

    Debian images are made on this machine, which needs root. Others are pulled from their registry. Images of another
    machine type need its emulation (qemu-user-static).
    """
    from gpuforge.containers.image_build import ImageBuilder

    chosen = [in_catalog(name, machine) for name in names]
    begin = time.monotonic()

    def show(text: str) -> None:
        say(f"[{time.monotonic() - begin:7.1f} s] {text}")

    def show_output(line: str) -> None:
        say(f"  | {line}")

    builder = ImageBuilder(connected(call), call.cache, show, show_output, network)
    for image in chosen:
        how = "made" if builder.make(image) else "is there already"
        click.echo(f"{image.name}: {how}: {image.reference}")


@command.command("check")
@click.argument("name")
@_of_machine
@pass_call
@click.pass_context
def check(context: click.Context, call: Call, name: str, machine: str) -> None:
    """Show what an image holds, and what it lacks for a build.

    NAME is a name from `gpuforge images list`, or any other image's reference. The image runs without a network.
    """
    from gpuforge.containers import obtain
    from gpuforge.containers.obtain import compilers, missing

    image = catalog.find(name, machine)
    reference = image.reference if image else name
    try:
        engine = connected(call)
    except MissingError:
        if image is None:  # a name that no engine can have is the more likely cause
            refuse_name(reference, [known.name for known in catalog.images()])
        raise
    here = engine.find(reference)
    if here is None:
        if image is None:
            refuse_pull(reference, [known.name for known in catalog.images()])
        how = image.to_build if image else f"docker pull {reference}"
        raise MissingError.of(f"the engine has no image {reference}", hint=how)
    found = obtain.contents(engine, here, name, call.cache / "images")
    click.echo(reference)
    if found.glibc:
        policy = LinuxTag.of_glibc(found.glibc, found.machine).names[0]
        click.echo(f"  glibc {found.glibc}: wheels built in it need at most {policy}")
    for python in found.interpreters:
        abilities = {"venv": python.venv, "pip": python.pip, "headers": python.headers}
        has = ", ".join(what for what, there in abilities.items() if there)
        click.echo(f"  CPython {python.title} ({has or 'no venv, pip or headers'}): {python.path}")
    for compiler in [*compilers(found, "g++"), *compilers(found, "nvcc")[:1]]:
        click.echo(f"  {compiler.family} {compiler.version}: {compiler.path}")
    lacks = missing(found, image, image.purpose if image else "build")
    for what in lacks:
        click.secho("missing: ", fg="red", bold=True, nl=False)
        click.echo(what)
    if not lacks:
        click.echo("nothing is missing")
    context.exit(1 if lacks else 0)


def connected(call: Call) -> Images:
    """Return the caller's images, else those of the engine; raises MissingError when none answers."""
    return call.images or Images()


def in_catalog(name: str, machine: str) -> CatalogImage:
    """Return an image of the catalog; raises UsageError with the existing names."""
    image = catalog.find(name, machine)
    if image is None:
        names = ", ".join(image.name for image in catalog.images(machine))
        raise UsageError.of(f"gpuforge knows no image {name!r}", hint=f"it makes or pulls: {names}")
    return image


def image_data(image: CatalogImage, existing: EngineImage | None) -> dict[str, Any]:
    """Return an image as plain data (schema 1)."""
    return {
        "name": image.name,
        "kind": image.kind,
        "purpose": image.purpose,
        "reference": image.reference,
        "policy": image.policy,
        "glibc": image.glibc,
        "pythons": list(image.pythons),
        "compilers": list(image.compilers),
        "toolkit": image.toolkit,
        "test": image.test,
        "built": image.built,
        "run": image.run,
        "here": existing is not None,
        "id": existing.id if existing else None,
        "size": existing.size if existing else None,
    }


def table(entries: list[tuple[CatalogImage, EngineImage | None]], *, has_engine: bool) -> None:
    """Print the images for people."""
    from rich.table import Table
    from rich.text import Text

    console = results_console()
    shown = Table(box=None, pad_edge=False, header_style="bold")
    # A reference is too wide for a terminal beside the other columns, and could not be copied from several lines.
    references = () if console.is_terminal else ("reference",)
    for heading in ("name", "for", "glibc", "Pythons", "compilers", "CUDA", "here", *references):
        shown.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for image, found in entries:
        here = (
            Text(f"{found.size / 1e6:,.0f} MB", style="green")
            if found
            else Text("no" if has_engine else "?", style="dim")
        )
        shown.add_row(
            image.name,
            "tests" if image.purpose == "test" else "builds",
            image.glibc,
            " ".join(image.pythons),
            " ".join(image.compilers),
            image.toolkit or "",
            here,
            *([image.reference] if references else []),
        )
    console.print(shown)
    if not references:
        console.print("\n`gpuforge images list --json` has their references", style="dim", highlight=False)
    unrun = [image.name for image, _ in entries if not image.run]
    if unrun:
        console.print(
            f"\nchecked by a linter only, never run by gpuforge's developers: {', '.join(unrun)}",
            style="dim",
            highlight=False,
        )
