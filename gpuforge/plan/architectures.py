"""Replaces "common" in a manifest's architectures by the shortest list that covers all GPUs."""

from __future__ import annotations

from dataclasses import replace

from gpuforge.cuda import releases
from gpuforge.errors import UsageError
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import CudaVersion


def spelled_out(file: ManifestFile) -> ManifestFile:
    """Return the manifest with the architectures that "common" stands for; raises UsageError for unknown toolkits."""
    versions = file.manifest.cuda.versions
    if not any(releases.COMMON in version.archs for version in versions.values()):
        return file
    meant = {name: _spelled_out(file, name, version) for name, version in versions.items()}
    cuda = file.manifest.cuda.model_copy(update={"versions": meant})
    return replace(file, manifest=file.manifest.model_copy(update={"cuda": cuda}))


def _spelled_out(file: ManifestFile, name: str, version: CudaVersion) -> CudaVersion:
    if releases.COMMON not in version.archs:
        return version
    try:
        release = releases.release(version.toolkit)
    except UsageError as error:
        (problem,) = error.diagnostics
        place = file.place("cuda", name, "toolkit")
        raise UsageError.of(problem.message, hint=problem.hint, place=place) from error
    return version.model_copy(update={"archs": releases.spelled_out(version.archs, release)})
