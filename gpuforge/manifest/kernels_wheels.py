"""Kernels in wheels of their own (`[wheel] kernels = "own"`): which objects go there, and what that demands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from gpuforge.manifest.forms import quote
from gpuforge.manifest.model.manifest import Manifest
from gpuforge.manifest.model.object import Object
from gpuforge.manifest.problem import Problem, Raw, compiler_of, numbered, table, text_of

OF_CUDA = ("nvcc", "nvrtc")
"""Compilers whose output is for one CUDA version; what others compile stays in the package's own wheel."""


def is_split(manifest: Manifest) -> bool:
    """Say whether the package has kernels wheels."""
    return manifest.wheel.kernels == "own"


def in_kernels_wheel(manifest: Manifest, item: Object) -> bool:
    """Say whether an object goes into the kernels wheels."""
    made = item.role == "fallback" and manifest.toolchains[item.toolchain or ""].compiler in OF_CUDA
    return is_split(manifest) and made


def major(toolkit: str) -> str:
    """Return the CUDA major of a toolkit: "13" of "13.0"."""
    return toolkit.partition(".")[0]


def distribution(manifest: Manifest, toolkit: str) -> str:
    """Return the name of the kernels wheel for a toolkit's CUDA major: "saxpy-kernels-cu13"."""
    return f"{canonicalize_name(manifest.package.name)}-kernels-cu{major(toolkit)}"


def folder(manifest: Manifest, toolkit: str) -> str:
    """Return the name of that wheel's one folder: "saxpy_kernels_cu13"."""
    return distribution(manifest, toolkit).replace("-", "_")


def extra_for(toolkit: str) -> str:
    """Return the extra of the package's own wheel that brings it: "cuda13"."""
    return f"cuda{major(toolkit)}"


def toolkits(manifest: Manifest) -> list[str]:
    """Return the manifest's toolkits, the newest first."""
    found = {version.toolkit for version in manifest.cuda.versions.values()}
    return sorted(found, key=lambda text: tuple(map(int, text.split("."))), reverse=True)


def problems(data: Raw) -> Iterator[Problem]:
    """Yield what contradicts kernels in wheels of their own."""
    wheel, cuda = table(data, "wheel"), table(data, "cuda")
    if wheel.get("kernels") != "own":
        return
    if not any(_is_of_cuda(data, thing) for _, thing in numbered(data.get("objects"))):
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own", and no fallback object is compiled by nvcc: the kernels wheels would be empty',
            "leave `kernels` out, or add a fallback object",
        )
    if table(data, "build").get("cuda") is not False:
        yield Problem(
            ("wheel", "kernels"),
            '[wheel] kernels = "own" makes one wheel for all CUDA versions, and the host build uses a CUDA toolkit',
            "write [build] cuda = false if the host code needs no CUDA; else leave `kernels` out",
        )
    if wheel.get("naming", ["plain"]) != ["plain"]:
        yield Problem(
            ("wheel", "naming"),
            '[wheel] naming goes with kernels inside the wheel: with kernels = "own" the package keeps its plain name',
            "leave `naming` out; the kernels wheels are named name-kernels-cu12",
            at_key=True,
        )
    if cuda.get("requires") == "extra":
        yield Problem(
            ("cuda", "requires"),
            '[cuda] requires = "extra" goes with kernels inside the wheel: with kernels = "own" the extras bring the '
            "kernels wheels, and these require NVIDIA's packages",
            "leave `requires` out",
            at_key=True,
        )
    name = table(data, "package").get("name")
    if isinstance(name, str) and re.search(r"[-_.]cu\d+x?$", name, re.IGNORECASE):
        yield Problem(
            ("package", "name"),
            f"[package] name: {quote(name)} is named for one CUDA version, and with [wheel] kernels = "
            '"own" it serves all',
            "give the package a name without a CUDA suffix",
        )


def _is_of_cuda(data: Raw, thing: Raw) -> bool:
    return thing.get("role") == "fallback" and compiler_of(data, text_of(thing, "toolchain")) in OF_CUDA
