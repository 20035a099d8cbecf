"""Finds the image of a name: of gpuforge or not, on this machine or not, and its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuforge.containers import catalog, probe
from gpuforge.containers import image_reference as references
from gpuforge.containers.engine_errors import RefusedError
from gpuforge.containers.port import EngineImage, Images
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import MissingError, UsageError
from gpuforge.plan.site import ContainerImage


def images(
    engine: Images,
    names: Sequence[str],
    *,
    test: str | bool,
    machine: str,
    cache: Path,
    pulls: Callable[[str], None],
) -> list[ContainerImage]:
    """Return the images of these names, ready to run; a missing one of a registry is pulled, after a call of `pulls`.

    gpuforge's own images are never pulled, nor is any other reference that `refuse_pull` refuses.

    `test` is the image that wheels are tested in: True for the one that gpuforge has beside each, False for none.
    Raises one MissingError for all images that are missing and cannot be pulled, and UsageError for one of another
    machine type than `machine`.
    """
    found: list[ContainerImage] = []
    missing: list[Diagnostic] = []
    for name in names:
        known = catalog.find(name)
        clean = test if isinstance(test, str) else known.test if known and test else None
        try:
            beside = _image(engine, clean, machine, cache, pulls) if clean else None
        except MissingError as error:
            beside = None
            missing += error.diagnostics
        try:
            built_in = _image(engine, name, machine, cache, pulls)
            found.append(replace(built_in, test=beside, spare=test is True))
        except MissingError as error:
            missing += error.diagnostics
    if missing:
        raise MissingError.all_of(dict.fromkeys(missing))
    return found


def _image(
    engine: Images, name: str, machine: str, cache: Path, pulls: Callable[[str], None]
) -> ContainerImage:
    known = catalog.find(name)
    reference = known.reference if known else name
    image = engine.find(reference)
    if image is None:
        if known and known.built:
            raise MissingError.of(
                f"image {known.name} is not built yet", hint=f"gpuforge images build {known.name}"
            )
        references.refuse_pull(reference, [image.name for image in catalog.images(machine)])
        pulls(reference)
        image = _pull(engine, name, reference)
    found = probe.contents(engine, image, name, cache)
    if found.machine != machine:
        raise UsageError.of(f"image {name} is for {found.machine}, and this machine is {machine}")
    if not found.glibc:
        raise UsageError.of(
            f"image {name} has another C library than glibc, which manylinux wheels and CUDA need",
            hint="take one of `gpuforge images list`",
        )
    if not found.interpreters:
        raise MissingError.of(
            f"image {name} has no Python in {', '.join(probe.PYTHONS[:-1])} or {probe.PYTHONS[-1]}",
            hint="take a manylinux image, or one of `gpuforge images list`",
        )
    return ContainerImage(image.id, name, found)


def _pull(engine: Images, name: str, reference: str) -> EngineImage:
    why = "the registry does not have it"
    try:
        for _ in engine.pull(reference):
            pass
    except RefusedError as error:
        why = error.answer
    else:
        if image := engine.find(reference):
            return image
    ours = ", ".join(image.name for image in catalog.images() if image.kind == "debian")
    raise MissingError.of(
        f"image {name} is not here and cannot be pulled: {why}",
        hint=f"check the name and the network, or build one that needs no registry: gpuforge images build ({ours})",
    )
