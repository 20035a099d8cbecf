"""CUDA toolkits in the container image of the build."""

from gpuforge import digest
from gpuforge.cuda.version import minor_of
from gpuforge.errors import MissingError
from gpuforge.toolkits.providers import pypi
from gpuforge.toolkits.toolkit import Toolkit, ToolkitRequest


def offer(request: ToolkitRequest) -> Toolkit | None:
    """Return the toolkit of exactly that minor, None if the image has none; raises UsageError for unknown libraries."""
    for root, version in request.inventory.toolkits.items() if request.inventory else ():
        if request.inventory and minor_of(version) == request.minor:
            pypi.check_libraries(request)
            nvcc = request.inventory.detect("nvcc", path=str(root / "bin" / "nvcc"))
            identity = digest.of_data([nvcc.identity, version])
            return Toolkit(request.minor, "image", identity, str(nvcc.version), str(root), root=root)
    return None


def absent(request: ToolkitRequest, elsewhere: str) -> MissingError:
    """Return the error for a toolkit that the image does not have; `elsewhere` names the providers that have it."""
    if request.inventory is None:
        return MissingError.of(
            "provider = 'image' takes the CUDA toolkit from a container image, and this build runs in none",
            hint=f"build with --runner docker, or leave the provider out: {elsewhere}",
        )
    present = ", ".join(f"{version} in {root}" for root, version in request.inventory.toolkits.items())
    return MissingError.of(
        f"no CUDA {request.minor} in image {request.inventory.name}; it has {present or 'none'}",
        hint=f"choose another image, or leave the provider out: {elsewhere}",
    )
