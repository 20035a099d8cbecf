"""Describes an image by the catalog, to plan for it without the image and without an engine, on any machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpuforge.containers import catalog
from gpuforge.cpython import CPython
from gpuforge.errors import MissingError
from gpuforge.plan.site import ContainerImage
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolchains.inventory import Inventory
from gpuforge.toolchains.toolchain import Compiler
from gpuforge.toolkits.providers import debian

ANY_PYTHON = tuple(f"3.{minor}" for minor in range(8, 100))  # the Pythons that an unknown image may have
ANY_MAJOR = range(30, 3, -1)  # of a compiler, the newest first
_NVCC = "Cuda compilation tools, release {minor}, V{version}"  # the output of nvcc --version


@dataclass(frozen=True, slots=True)
class ExpectedImage(ContainerImage):
    """An image by its description: `compilers` are those in the catalog, the default first ("g++-13"); None: any."""

    compilers: tuple[str, ...] | None = None

    def detect(self, family: str, *, path: str | None = None, specifier: str | None = None) -> Compiler:
        """Return the first compiler in a version range: a listed one, in an unknown image or by a path any."""
        allowed = SpecifierSet(specifier or "")
        names = [name.rpartition("-") for name in self.compilers or ()]
        known = [int(major) for listed_family, _, major in names if listed_family == family]
        for major in ANY_MAJOR if path or self.compilers is None else known:
            version = next((v for v in _versions(major) if v in allowed), None)
            if version is not None:
                place = Path(path or f"/usr/bin/{family}-{major}")
                return Compiler(family, place, version, f"{family} {version.major}", place)
        having = ", ".join(f"{family} {major}" for major in known) or "none"
        what = f"{family} {specifier or ''}".strip()
        raise MissingError.of(f"no usable {what} in image {self.name}; it has {having}")


def image(name: str, machine: str, *, test: str | bool, toolkits: Sequence[str] = ()) -> ExpectedImage:
    """Return the known facts about an image of the catalog, or about any reference, for which there are none.

    `test` is as in `obtain.images`; `toolkits` ("12.4") are assumed to be in an unknown image.
    """
    known = catalog.find(name, machine)
    clean = test if isinstance(test, str) else known.test if known and test else None
    return ExpectedImage(
        id=known.reference if known else name,
        name=name,
        inventory=_inventory(known, name, machine, toolkits),
        test=image(clean, machine, test=False) if clean else None,
        spare=test is True,
        compilers=known.compilers if known else None,
    )


def _versions(major: int) -> Sequence[Version]:
    """Return the possible versions of a compiler of this major: the major alone, as in the catalog, then the latest."""
    latest = [f"{major}.{minor}.{patch}" for minor in range(9, -1, -1) for patch in range(4, -1, -1)]
    return [Version(text) for text in (str(major), *latest)]


def _inventory(
    listed: catalog.CatalogImage | None, name: str, machine: str, assumed: Sequence[str]
) -> Inventory:
    of_catalog = [listed.toolkit] if listed and listed.toolkit else []
    toolkits = {Path(f"/usr/local/cuda-{minor}"): minor for minor in (of_catalog if listed else assumed)}
    nvccs = {
        root / "bin" / "nvcc": _NVCC.format(
            minor=minor, version=debian.nvcc(minor) if minor in debian.minors() else f"{minor}.0"
        )
        for root, minor in toolkits.items()
    }
    pythons = tuple(_interpreter(minor) for minor in (listed.pythons if listed else ANY_PYTHON))
    return Inventory(name, machine, listed.glibc if listed else "0", nvccs, pythons, toolkits)


def _interpreter(minor: str) -> Interpreter:
    python = CPython.parse(minor)
    known = catalog.cpythons().get(minor)
    version = known.version if known else f"{python.number}.x"
    return Interpreter(Path(f"/opt/python/{python.folder}/bin/python3"), version, python.tag, headers=True)
