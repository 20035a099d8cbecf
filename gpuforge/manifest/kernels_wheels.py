"""Kernels in wheels of their own (`[wheel] kernels = "own"`): their objects, names and extras."""

from packaging.utils import canonicalize_name

from gpuforge.cuda.suffix import with_suffix
from gpuforge.cuda.version import major_of, numbers_of
from gpuforge.manifest.model import Manifest, Object
from gpuforge.toolchain_names import needs_cuda


def is_split(manifest: Manifest) -> bool:
    """Return whether the package has kernels wheels."""
    return manifest.wheel.kernels == "own"


def in_kernels_wheel(manifest: Manifest, item: Object) -> bool:
    """Return whether an object goes into the kernels wheels; objects for every CUDA version stay in the package's."""
    made = item.role == "fallback" and needs_cuda(manifest.toolchain_of(item).compiler)
    return is_split(manifest) and made


def distribution(manifest: Manifest, toolkit: str) -> str:
    """Return the name of the kernels wheel for a toolkit's CUDA major: "saxpy-kernels-cu13"."""
    return with_suffix(f"{canonicalize_name(manifest.package.name)}-kernels", major_of(toolkit))


def folder(manifest: Manifest, toolkit: str) -> str:
    """Return the name of that wheel's one folder: "saxpy_kernels_cu13"."""
    return distribution(manifest, toolkit).replace("-", "_")


def extra_for(toolkit: str) -> str:
    """Return the extra of the package's own wheel that installs it: "cuda13"."""
    return f"cuda{major_of(toolkit)}"


def toolkits(manifest: Manifest) -> list[str]:
    """Return the manifest's toolkits, the newest first."""
    found = {version.toolkit for version in manifest.cuda.versions.values()}
    return sorted(found, key=numbers_of, reverse=True)
