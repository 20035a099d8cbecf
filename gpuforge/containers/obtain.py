"""From an image's name to the image: which of gpuforge's own it is, whether it is here, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuforge.containers import catalog
from gpuforge.containers import connect as engine
from gpuforge.containers import reference as references
from gpuforge.containers.probe import inventory
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import GpuforgeError, MissingError, UsageError
from gpuforge.plan.site import ContainerImage


def images(
    client: Any,
    names: Sequence[str],
    *,
    test: str | bool,
    machine: str,
    cache: Path,
    pulls: Callable[[str], None],
) -> list[ContainerImage]:
    """Return the images of these names, ready to run; one that a registry has is pulled, after `pulls` was told.

    What gpuforge makes itself is never pulled, nor is any other reference that `refuse_pull` names.

    `test` names the image that wheels are tested in: True for the one that gpuforge has beside each, False for none.
    Raises MissingError for those that are not here and cannot be pulled, all of them at once, and UsageError for
    one of another machine type than `machine`.
    """
    found: list[ContainerImage] = []
    missing: list[Diagnostic] = []
    for name in names:
        known = catalog.find(name)
        clean = test if isinstance(test, str) else known.test if known and test else None
        try:
            beside = _image(client, clean, machine, cache, pulls) if clean else None
        except MissingError as error:
            beside = None
            missing += error.diagnostics
        try:
            found.append(replace(_image(client, name, machine, cache, pulls), test=beside))
        except MissingError as error:
            missing += error.diagnostics
    if missing:
        raise MissingError.all_of(dict.fromkeys(missing))
    return found


def _image(client: Any, name: str, machine: str, cache: Path, pulls: Callable[[str], None]) -> ContainerImage:
    known = catalog.find(name)
    reference = known.reference if known else name
    with engine.told(f"to look for image {name}"):
        try:
            image_id: str = client.images.get(reference).id
        except engine.ImageNotFound:
            image_id = ""
    if not image_id:
        if known and known.built:
            raise MissingError.of(
                f"image {known.name} is not built yet", hint=f"gpuforge images build {known.name}"
            )
        references.refuse_pull(reference, [image.name for image in catalog.images(machine)])
        pulls(reference)
        image_id = _pull(client, name, reference)
    found = inventory(client, image_id, name, cache)
    if found.machine != machine:
        raise UsageError.of(f"image {name} is for {found.machine}, and this machine is {machine}")
    if not found.glibc:
        raise UsageError.of(
            f"image {name} has another C library than glibc, which manylinux wheels and CUDA need",
            hint="take one of `gpuforge images list`",
        )
    return ContainerImage(image_id, name, found)


def _pull(client: Any, name: str, reference: str) -> str:
    try:
        with engine.told(f"to pull image {reference}"):
            tag = None if "@" in reference or ":" in reference.rpartition("/")[2] else "latest"
            return str(client.images.pull(reference, tag=tag).id)
    except GpuforgeError as error:
        said = error.diagnostics[0].message.partition(": ")[2]
        ours = ", ".join(image.name for image in catalog.images() if image.kind == "debian")
        raise MissingError.of(
            f"image {name} is not here and cannot be pulled: {said}",
            hint=f"check the name and the network, or build one that needs no registry: gpuforge images build ({ours})",
        ) from error
