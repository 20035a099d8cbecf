"""Checks whether an image has what a build or a test needs."""

from __future__ import annotations

from gpuforge.containers.catalog import CatalogImage
from gpuforge.containers.image_table import Purpose
from gpuforge.cuda.version import minor_of
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.detect import family_of
from gpuforge.toolchains.family import Compiler
from gpuforge.toolchains.inventory import OLDEST, Inventory


def missing(inventory: Inventory, image: CatalogImage | None, purpose: Purpose) -> list[str]:
    """Return what an image lacks: for a build or a test and, if it is of the catalog, of its description."""
    lacks = []
    if not inventory.glibc:
        lacks.append("the GNU C library: wheels for manylinux need it")
    if not any(_is_usable(python) for python in inventory.interpreters):
        lacks.append(f"a CPython {OLDEST} or newer with venv and pip, in /opt/python/cpXY-cpXY or on PATH")
    if (
        purpose == "build" and inventory.interpreters and not compilers(inventory, "g++")
    ):  # a Python runs the search
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


def _is_usable(python: Interpreter) -> bool:
    return python.cpython >= OLDEST and python.venv and python.pip


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
