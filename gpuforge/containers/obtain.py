"""Finds the image of a name: of gpuforge or not, on this machine or not, what it holds, and what it lacks."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from gpuforge import digest, disk
from gpuforge.containers import catalog, emulation
from gpuforge.containers import image_reference as references
from gpuforge.containers.catalog import CatalogImage, Purpose
from gpuforge.containers.engine import RefusedError, not_started
from gpuforge.containers.images import EngineImage, Images
from gpuforge.cuda.version import minor_of
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import ActionError, MissingError, UsageError
from gpuforge.plan.site import ContainerImage
from gpuforge.toolchains.detect import family_of
from gpuforge.toolchains.inventory import OLDEST, SCRIPT, Inventory, question
from gpuforge.toolchains.toolchain import Compiler

PYTHONS = ("/opt/python", "/usr/local/bin", "/usr/bin")
# Any Python of the image runs the script. Without one, the shell reports the machine type and the C library.
_SHELL = r"""
for python in /opt/python/cp3*-cp3*/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do
  if [ -x "$python" ]; then exec "$python" -I -c "$@"; fi
done
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
printf '{"machine": "%s", "glibc": "%s", "compilers": [], "pythons": [], "toolkits": {}, "path": "%s"}\n' \
  "$(uname -m)" "${libc#glibc }" "$PATH"
"""


def contents(images: Images, image: EngineImage, name: str, cache: Path) -> Inventory:
    """Return the content of an image; it is cached in the folder `cache`, by the image's ID.

    Raises MissingError for an image without a shell and ActionError for one that cannot be run. Without any Python in
    the image, only the machine type and the C library are known.
    """
    key = digest.of_data([image.id, platform.machine(), _SHELL, SCRIPT, question()])
    kept = cache / f"{key[:32]}.json"
    if kept.is_file():
        try:
            return Inventory.parse(name, kept.read_text())
        except (ValueError, KeyError):
            kept.unlink()
    answer = _ask(images, image, name)
    try:
        found = Inventory.parse(name, answer)
    except (ValueError, KeyError, TypeError) as error:
        message = f"the answer of image {name} on what it holds cannot be read: {error}"
        raise ActionError.of(message, hint="remove what its shell or Python prints at start") from error
    disk.sweep(cache)
    disk.write_text(kept, answer)
    return found


def _ask(images: Images, image: EngineImage, name: str) -> str:
    ran = images.run(image.id, ["/bin/sh", "-c", _SHELL, "sh", SCRIPT, question()])
    if why := not_started(ran.errors):
        if "Exec format" in why:
            raise MissingError.of(
                f"image {name} is for another machine type than {platform.machine()}, and the engine has no emulation",
                hint=emulation.HINT,
            )
        raise MissingError.of(
            f"image {name} cannot run /bin/sh: {why}",
            hint="builds need a shell and the GNU C library: take one of `gpuforge images list`",
        )
    if ran.status:
        raise ActionError.of(f"what image {name} holds is unknown: {ran.reason}")
    return ran.output


def missing(inventory: Inventory, image: CatalogImage | None, purpose: Purpose) -> list[str]:
    """Return what an image lacks: for a build or a test and, if it is of the catalog, of its description."""
    lacks = []
    if not inventory.glibc:
        lacks.append("the GNU C library: wheels for manylinux need it")
    usable = (each.cpython >= OLDEST and each.venv and each.pip for each in inventory.interpreters)
    if not any(usable):
        lacks.append(f"a CPython {OLDEST} or newer with venv and pip, in /opt/python/cpXY-cpXY or on PATH")
    # a Python runs the search
    if purpose == "build" and inventory.interpreters and not compilers(inventory, "g++"):
        lacks.append("a g++")
    if image is not None:
        lacks += _unlike(inventory, image)
    return lacks


def compilers(inventory: Inventory, family: str) -> list[Compiler]:
    """Return the compilers of a family ("g++", "nvcc") in an image, in the order of its PATH."""
    kind = family_of(family)
    answers = [
        (path, text) for path, text in inventory.compilers.items() if kind.programs.fullmatch(path.name)
    ]
    return [Compiler(family, path, *parsed) for path, text in answers if (parsed := kind.parse(text))]


def _unlike(inventory: Inventory, image: CatalogImage) -> list[str]:
    """Return the differences between an image and its description in the catalog."""
    minors = {python.minor for python in inventory.interpreters if python.path.is_relative_to("/opt")}
    gxx = compilers(inventory, "g++")
    families = {name.rpartition("-")[0] for name in image.compilers}
    majors = {
        f"{family}-{each.version.major}" for family in families for each in compilers(inventory, family)
    }
    lacks = [f"CPython {minor} in /opt/python" for minor in image.pythons if minor not in minors]
    lacks += [compiler for compiler in image.compilers if compiler not in majors]
    if inventory.glibc and inventory.glibc != image.glibc:
        lacks.append(f"glibc {image.glibc}: it has {inventory.glibc}")
    if image.purpose == "test" and gxx:
        lacks.append(f"a system without compilers: it has {gxx[0].path}")
    nvcc = next((str(compiler.version) for compiler in compilers(inventory, "nvcc")), "")
    if image.toolkit and minor_of(nvcc) != image.toolkit:
        has = f": it has {nvcc}" if nvcc else ""
        lacks.append(f"nvcc {image.toolkit}{has}")
    return lacks


def images(
    engine: Images,
    names: Sequence[str],
    *,
    test: str | bool,
    machines: Sequence[str],
    cache: Path,
    pulls: Callable[[str], None],
) -> list[ContainerImage]:
    """Return the images of these names for each machine type, ready to run.

    A missing one of a registry is pulled, after a call of `pulls`.

    gpuforge's own images are never pulled, nor is any other reference that `refuse_pull` refuses.

    `test` is the image that wheels are tested in: True for the one that gpuforge has beside each, False for none.
    Raises one MissingError for all images that are missing and cannot be pulled, and UsageError if all images are of
    other machine types.
    """
    found: list[ContainerImage] = []
    absent: list[Diagnostic] = []
    for machine, name in product(machines, names):
        known = catalog.find(name, machine)
        clean = test if isinstance(test, str) else known.test if known and test else None
        try:
            beside = _image(engine, clean, machine, cache, pulls) if clean else None
        except MissingError as error:
            beside = None
            absent += error.diagnostics
        try:
            built_in = _image(engine, name, machine, cache, pulls)
            found.append(replace(built_in, test=beside, spare=test is True))
        except MissingError as error:
            absent += error.diagnostics
        except UsageError:
            if len(names) == 1:  # else others may be of this type
                raise
    if absent:
        raise MissingError.all_of(dict.fromkeys(absent))
    return found


def _image(
    engine: Images, name: str, machine: str, cache: Path, pulls: Callable[[str], None]
) -> ContainerImage:
    known = catalog.find(name, machine)
    reference = known.reference if known else name
    image = engine.find(reference)
    if image is None:
        if known and known.built:
            raise MissingError.of(f"image {known.name} is not built yet", hint=known.to_build)
        references.refuse_pull(reference, [image.name for image in catalog.images(machine)])
        pulls(reference)
        image = _pull(engine, name, reference, machine)
    found = contents(engine, image, name, cache)
    if found.machine != machine:
        raise UsageError.of(
            f"image {name} is for {found.machine}, and the wheels are for {machine}",
            hint="name one image for each machine type, by its digest, or those of `gpuforge images list`",
        )
    if not found.glibc:
        raise UsageError.of(
            f"image {name} has another C library than glibc, which manylinux wheels and CUDA need",
            hint="take one of `gpuforge images list`",
        )
    if not found.interpreters:
        raise MissingError.of(
            f"image {name} has no Python in {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]}",
            hint="take a manylinux image, or one of `gpuforge images list`",
        )
    return ContainerImage(image.id, name, found)


def _pull(engine: Images, name: str, reference: str, machine: str) -> EngineImage:
    why = "the registry does not have it"
    try:
        for _ in engine.pull(reference, machine):
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
