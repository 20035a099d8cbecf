"""The build record of a wheel: what it was built with, and nothing about where.

It is a part of the JSON in `.dist-info/gpuforge.json` (package/records.py). The same compilers make the same bytes
on this machine, in containers and on workers (docs/decisions/same-bytes.md).
"""

from __future__ import annotations

from typing import Any

from gpuforge import __version__, digest
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import CudaVersion
from gpuforge.plan.cell import Cell
from gpuforge.plan.site import Location
from gpuforge.toolchains.nvcc import NVCC
from gpuforge.toolchains.toolchain import Compiler

Record = dict[str, Any]


def of(file: ManifestFile, at: Location, cell: Cell, host: Compiler, of_nvcc: Compiler) -> Record:
    """Return the record of one cell: `host` compiled its host build, `of_nvcc` the kernels with nvcc."""
    shared = of_kernels(file, at, cell, of_nvcc) if cell.cuda else {**_common(file, cell), **_axes(cell)}
    toolchains = {**shared["toolchains"], "host": _compiler(host)}
    return {**shared, "toolchains": toolchains, "cell": cell.id, "naming": cell.naming}


def of_host(file: ManifestFile, cell: Cell, host: Compiler) -> Record:
    """Return the record of a wheel that was built without a toolkit: it is for all CUDA versions, or for none."""
    return {**_common(file, cell), "toolchains": {"host": _compiler(host)}}


def of_kernels(file: ManifestFile, at: Location, cell: Cell, host: Compiler) -> Record:
    """Return the record of a kernels wheel, which does not depend on Python; nvcc used the compiler `host`."""
    toolkit, cuda = at.toolkits[cell.cuda], file.manifest.cuda
    nvcc = {"family": NVCC.name, "version": toolkit.nvcc, "host": _compiler(host)}
    return {
        **_common(file, cell),
        "toolchains": {"device": nvcc},
        "linkage": cuda.linkage,
        "toolkit": {
            "version": toolkit.version,
            "provider": toolkit.provider,
            "packages": dict(toolkit.packages),
        },
        **_architectures(cuda.versions[cell.cuda]),
        "narrowed": _architectures(file.whole.cuda.versions[cell.cuda]) if file.whole else None,
        **_axes(cell),
    }


def _common(file: ManifestFile, cell: Cell) -> Record:
    """Return the keys of every record. The digest is of all of the manifest but comments, [test] and [audit]."""
    whole = (file.whole or file.manifest).model_dump(
        mode="json", by_alias=True, exclude={"test", "audit"}, exclude_defaults=True
    )
    manifest = {"sha256": digest.of_data(whole)}
    return {"gpuforge": __version__, "machine": cell.machine, "manifest": manifest, "toolchains": {}}


def _axes(cell: Cell) -> Record:
    """Return the values of the maintainer's own axes, if the manifest has some, and those that the wheel serves."""
    if not cell.point.values:
        return {}
    built, serves = dict(cell.point.values), [dict(point.values) for point in cell.points]
    return {"axes": {"built": built, "serves": serves}}


def _architectures(version: CudaVersion) -> Record:
    """Return the architectures of machine code and of PTX for a toolkit; a wheel of `--archs` has only some of them."""
    return {
        "archs": [target.arch.number for target in version.targets if target.real],
        "ptx": [target.arch.number for target in version.targets if target.ptx],
    }


def _compiler(compiler: Compiler) -> Record:
    """Return a host compiler's family and version. gpuforge's version tells where it was fetched from."""
    return {"family": compiler.family, "version": str(compiler.version)}
