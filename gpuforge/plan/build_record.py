"""The build record of a wheel: what it was built with, and nothing about where.

The same compilers make the same bytes on this machine, in containers and on workers (docs/decisions/same-bytes.md).
"""

from __future__ import annotations

from dataclasses import replace

from gpuforge import __version__, digest
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import CudaVersion
from gpuforge.package.contents import (
    Architectures,
    AxisValues,
    BuildRecord,
    CudaBuild,
    DeviceCompiler,
    HostCompiler,
    UsedToolkit,
)
from gpuforge.plan.cell import Cell
from gpuforge.plan.site import Location
from gpuforge.toolchains.nvcc import NVCC
from gpuforge.toolchains.toolchain import Compiler


def of(file: ManifestFile, at: Location, cell: Cell, host: Compiler, of_nvcc: Compiler) -> BuildRecord:
    """Return the record of one cell: `host` compiled its host build, `of_nvcc` the kernels with nvcc."""
    shared = of_kernels(file, at, cell, of_nvcc) if cell.cuda else of_host(file, cell, host)
    return replace(shared, host=_compiler(host), axes=_axes(cell), cell=cell.id, naming=cell.naming)


def of_host(file: ManifestFile, cell: Cell, host: Compiler) -> BuildRecord:
    """Return the record of a wheel that was built without a toolkit: it is for all CUDA versions, or for none."""
    return BuildRecord(__version__, cell.machine, _manifest_digest(file), _compiler(host))


def of_kernels(file: ManifestFile, at: Location, cell: Cell, host: Compiler) -> BuildRecord:
    """Return the record of a kernels wheel, which does not depend on Python; nvcc used the compiler `host`."""
    toolkit = at.toolkits[cell.cuda]
    return BuildRecord(
        gpuforge=__version__,
        machine=cell.machine,
        manifest=_manifest_digest(file),
        device=DeviceCompiler(NVCC.name, toolkit.nvcc, _compiler(host)),
        cuda=CudaBuild(
            linkage=file.manifest.cuda.linkage,
            toolkit=UsedToolkit(toolkit.version, toolkit.provider, toolkit.packages),
            compiled=_architectures(file.manifest.cuda.versions[cell.cuda]),
            whole=_architectures(file.whole.cuda.versions[cell.cuda]) if file.whole else None,
        ),
        axes=_axes(cell),
    )


def _axes(cell: Cell) -> AxisValues | None:
    """Return the values of the maintainer's own axes, where the manifest has some."""
    if not cell.point.values:
        return None
    return AxisValues(dict(cell.point.values), tuple(dict(point.values) for point in cell.points))


def _manifest_digest(file: ManifestFile) -> str:
    """Return a digest of the parts of the manifest that decide on the wheel: all but comments, [test] and [audit]."""
    whole = file.whole or file.manifest
    return digest.of_data(
        whole.model_dump(mode="json", by_alias=True, exclude={"test", "audit"}, exclude_defaults=True)
    )


def _architectures(version: CudaVersion) -> Architectures:
    """Return the architectures of machine code and of PTX for a toolkit; a wheel of `--archs` has only some of them."""
    return Architectures(
        archs=tuple(target.arch.number for target in version.targets if target.real),
        ptx=tuple(target.arch.number for target in version.targets if target.ptx),
    )


def _compiler(compiler: Compiler) -> HostCompiler:
    """Return a host compiler's family and version. gpuforge's version tells where it was fetched from."""
    return HostCompiler(compiler.family, str(compiler.version))
