"""The build record of a wheel: what it was built with, and nothing about where.

The same compilers make the same bytes on this machine, in containers and on workers (docs/decisions/0046).
"""

from __future__ import annotations

from typing import Any

from gpuforge import __version__, digest
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.cuda import CudaVersion
from gpuforge.plan.cell import Cell
from gpuforge.plan.site import Location
from gpuforge.toolchains.family import Compiler
from gpuforge.toolchains.nvcc import NVCC


def of(file: ManifestFile, at: Location, cell: Cell, host: Compiler, of_nvcc: Compiler) -> dict[str, Any]:
    """Return the record of one cell as plain data: `host` compiled its host build, `of_nvcc` the kernels with nvcc."""
    if not cell.cuda:
        return {**of_host(file, cell, host), "cell": cell.id, "naming": cell.naming, **_axes(cell)}
    return {
        **_of_cuda(file, at, cell),
        "cell": cell.id,
        "naming": cell.naming,
        "toolchains": {"host": _compiler(host), "device": _nvcc(at, cell, of_nvcc)},
    }


def _axes(cell: Cell) -> dict[str, Any]:
    """Return the values of the maintainer's own axes, where the manifest has some."""
    values = {"built": dict(cell.point.values), "serves": _served(cell)}
    return {"axes": values} if cell.point.values else {}


def of_host(file: ManifestFile, cell: Cell, host: Compiler) -> dict[str, Any]:
    """Return the record of a wheel that was built without a toolkit: it is for all CUDA versions, or for none."""
    return {
        "gpuforge": __version__,
        "machine": cell.machine,
        "toolchains": {"host": _compiler(host)},
        "manifest": {"sha256": _manifest_digest(file)},
    }


def of_kernels(file: ManifestFile, at: Location, cell: Cell) -> dict[str, Any]:
    """Return the record of a kernels wheel, which does not depend on Python."""
    return {
        **_of_cuda(file, at, cell),
        "toolchains": {"device": _nvcc(at, cell, at.hosts[cell.cuda])},
    }


def _of_cuda(file: ManifestFile, at: Location, cell: Cell) -> dict[str, Any]:
    """Return the part that is the same in the records of the wheel and the kernels wheel of one CUDA version."""
    toolkit = at.toolkits[cell.cuda]
    return {
        "gpuforge": __version__,
        "machine": cell.machine,
        "linkage": file.manifest.cuda.linkage,
        **_axes(cell),
        "toolkit": {
            "version": toolkit.version,
            "provider": toolkit.provider,
            "packages": dict(toolkit.packages),
        },
        **_architectures(file.manifest.cuda.versions[cell.cuda]),
        "narrowed": _architectures(file.whole.cuda.versions[cell.cuda]) if file.whole else None,
        "manifest": {"sha256": _manifest_digest(file)},
    }


def _nvcc(at: Location, cell: Cell, host: Compiler) -> dict[str, Any]:
    return {"family": NVCC.name, "version": at.toolkits[cell.cuda].nvcc, "host": _compiler(host)}


def _served(cell: Cell) -> list[dict[str, str]]:
    """Return the values of the axes that the wheel is meant for."""
    return [dict(point.values) for point in cell.points]


def _manifest_digest(file: ManifestFile) -> str:
    """Return a digest of the parts of the manifest that decide on the wheel: all but comments, [test] and [audit]."""
    whole = file.whole or file.manifest
    return digest.of_data(
        whole.model_dump(mode="json", by_alias=True, exclude={"test", "audit"}, exclude_defaults=True)
    )


def _architectures(version: CudaVersion) -> dict[str, Any]:
    """Return the architectures of machine code and of PTX for a toolkit; a wheel of `--archs` has only some of them."""
    return {
        "archs": [target.arch.number for target in version.targets if target.real],
        "ptx": [target.arch.number for target in version.targets if target.ptx],
    }


def _compiler(compiler: Compiler) -> dict[str, str]:
    """Return a host compiler's family and version. gpuforge's version tells where it was fetched from."""
    return {"family": compiler.family, "version": str(compiler.version)}
