"""A build for a quick try, for the architectures of `--archs` only."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import CudaVersion
from gpuforge.runtime.arch import Arch, Target


def narrow(file: ManifestFile, archs: Sequence[str]) -> ManifestFile:
    """Return the manifest with the architectures of `archs` ("90", "sm_90a") alone; without any, as it is.

    A toolkit keeps its PTX when that is for one of them. One that has none of them stays as it is: `plan.cell.select`
    leaves its cells out. Raises UsageError for an invalid architecture.
    """
    if not archs:
        return file
    if not file.manifest.cuda.versions:
        raise UsageError.of(
            f"--archs {','.join(archs)}: the manifest has no [cuda]", hint="leave the option out"
        )
    chosen = tuple(dict.fromkeys(_parsed(text) for text in archs))
    versions = {name: _narrowed(version, chosen) for name, version in file.manifest.cuda.versions.items()}
    cuda = file.manifest.cuda.model_copy(update={"versions": versions})
    manifest = file.manifest.model_copy(update={"cuda": cuda})
    return replace(file, manifest=manifest, narrowed=chosen, whole=file.manifest)


def having(version: CudaVersion, archs: Container[Arch]) -> tuple[Arch, ...]:
    """Return the toolkit's architectures that are among `archs`, in the toolkit's order."""
    return tuple(target.arch for target in version.targets if target.real and target.arch in archs)


def _narrowed(version: CudaVersion, chosen: Container[Arch]) -> CudaVersion:
    archs = tuple(text for text in version.archs if Target.parse(text).arch in chosen)
    ptx = version.ptx if version.ptx and Arch.parse(version.ptx) in chosen else None
    return version.model_copy(update={"archs": archs, "ptx": ptx}) if archs else version


def _parsed(text: str) -> Arch:
    try:
        return Arch.parse(text)
    except ValueError:
        raise UsageError.of(
            f"--archs {text}: not a GPU architecture", hint="write it as in --archs 90 or 80,90a"
        ) from None
