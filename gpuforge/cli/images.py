"""`gpuforge images`: the container images of builds and tests; list, build, check."""

from __future__ import annotations

import time

import click

from gpuforge.cli.main import say
from gpuforge.cli.options import cache_dir
from gpuforge.containers import catalog
from gpuforge.containers.catalog import Image
from gpuforge.errors import UsageError


@click.group("images")
def command() -> None:
    """Container images for builds and tests: which there are, make them, check one."""


@command.command("build")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--network", metavar="NAME", help="The engine's network for the build, e.g. host.")
def build(names: tuple[str, ...], network: str | None) -> None:
    """Make the images NAME... that the engine does not have; pull those of a registry."""
    from gpuforge.containers.build import Workshop
    from gpuforge.containers.docker_images import DockerImages

    wanted = [known(name) for name in names]
    begin = time.monotonic()

    def tell(text: str) -> None:
        say(text if text.startswith("  | ") else f"[{time.monotonic() - begin:7.1f} s] {text}")

    workshop = Workshop(DockerImages(), cache_dir(), tell, network)
    for image in wanted:
        made = workshop.make(image)
        click.echo(f"{image.name}: {'made' if made.new else 'is there already'}: {image.reference}")


def known(name: str) -> Image:
    """Return an image of the catalog; raises UsageError, naming those there are."""
    image = catalog.find(name)
    if image is None:
        names = ", ".join(image.name for image in catalog.images())
        raise UsageError.of(f"no image {name!r}", hint=f"there are: {names}")
    return image
