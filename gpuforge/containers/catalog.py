"""The images that gpuforge knows: the names for a manifest's `[wheel] image`, and the content of each."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache

from gpuforge.containers import image_table, stages
from gpuforge.containers.image_table import ImageRow, Kind, Purpose
from gpuforge.wheel.tags import LinuxTag


@dataclass(frozen=True, slots=True)
class CatalogImage:
    """A container image: its purpose, its content, and its reference in an engine.

    `pythons` ("3.11") are in /opt/python/cpXY-cpXY, `compilers` ("g++-12") on PATH, the default first. A wheel built in
    it needs at most `glibc` ("2.36"). `test` is the image that its wheels are tested in, `toolkit` ("11.8") the CUDA
    toolkit in /usr/local/cuda, if there is one. `built` is True for an image that `gpuforge images build` makes, False
    for one that is pulled; `run` is False for definitions that their authors never ran.
    """

    name: str
    kind: Kind
    purpose: Purpose
    reference: str
    machine: str
    glibc: str
    pythons: tuple[str, ...]
    compilers: tuple[str, ...]
    test: str | None
    toolkit: str | None
    built: bool
    run: bool

    @property
    def policy(self) -> str:
        """The newest platform tag that a wheel built in it can need: "manylinux_2_36_x86_64"."""
        return LinuxTag.of_glibc(self.glibc, self.machine).names[0]


def images(machine: str | None = None) -> tuple[CatalogImage, ...]:
    """Return the images for a machine type (default: this machine's), in the order of the data."""
    return _images(machine or platform.machine())


def find(name: str, machine: str | None = None) -> CatalogImage | None:
    """Return the image with a name or reference; None for any other, which is the user's own reference."""
    return next((image for image in images(machine) if name in {image.name, image.reference}), None)


@cache
def _images(machine: str) -> tuple[CatalogImage, ...]:
    return tuple(_image(row, machine) for row in image_table.rows() if row.is_for(machine))


def _image(row: ImageRow, machine: str) -> CatalogImage:
    stage = stages.stage_of(row.name, machine)
    below = image_table.row(row.on) if row.on else row
    debian = row.kind == "debian"
    return CatalogImage(
        name=row.name,
        kind=row.kind,
        purpose=row.purpose,
        reference=stage.reference if stage else stages.pinned(row.name, machine),
        machine=machine,
        glibc=image_table.release(below.suite).glibc if debian else below.glibc,
        pythons=below.pythons,
        compilers=row.compilers or below.compilers,
        test=below.test,
        toolkit=row.toolkit,
        built=stage is not None,
        run=debian,
    )
