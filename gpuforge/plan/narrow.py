"""A build for a quick try: of the manifest's architectures only those of `--archs`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuforge.cuda.arch import Arch, Target
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model.cuda import CudaVersion


def narrow(file: ManifestFile, archs: Sequence[str]) -> ManifestFile:
    """Return the manifest with the architectures of `archs` ("90", "sm_90a") alone; without any, as it is.

    A toolkit keeps its PTX when that is for one of them. One that has none of them stays as it is: `plan.cell.select`
    leaves its cells out. Raises UsageError for what is no architecture.
    """
    if not archs:
        return file
    if not file.manifest.cuda.versions:
        raise UsageError.of(
            f"--archs {','.join(archs)}: the manifest has no [cuda]", hint="leave the option out"
        )
    numbers = tuple(dict.fromkeys(_number(text) for text in archs))
    versions = {name: _narrowed(version, numbers) for name, version in file.manifest.cuda.versions.items()}
    cuda = file.manifest.cuda.model_copy(update={"versions": versions})
    manifest = file.manifest.model_copy(update={"cuda": cuda})
    return replace(file, manifest=manifest, narrowed=numbers, whole=file.manifest)


def having(version: CudaVersion, archs: Iterable[str]) -> tuple[str, ...]:
    """Return those of the architectures `archs` ("90") that a toolkit is to compile for, in its own order."""
    return tuple(number for arch in version.archs if (number := _bare(arch)) in archs)


def _narrowed(version: CudaVersion, numbers: Sequence[str]) -> CudaVersion:
    archs = tuple(arch for arch in version.archs if _bare(arch) in numbers)
    ptx = version.ptx if version.ptx in numbers else None
    return version.model_copy(update={"archs": archs, "ptx": ptx}) if archs else version


def _bare(arch: str) -> str:
    return Target.parse(arch).arch.number


def _number(text: str) -> str:
    try:
        return Arch.parse(text).number
    except ValueError:
        raise UsageError.of(
            f"--archs {text}: not a GPU architecture", hint="write it as in --archs 90 or 80,90a"
        ) from None
