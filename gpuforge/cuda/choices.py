"""What a manifest's `[cuda]` chooses from: providers of toolkits, and how a wheel is linked with CUDA's libraries."""

from collections.abc import Mapping
from typing import Literal

Linkage = Literal["pip", "bundle", "system", "static"]
DriverLibrary = Literal["cuda", "nvidia-ml", "OpenCL", "amdhip64", "ze_loader"]  # toolkits/data/drivers.toml
Requires = Literal["always", "extra"]  # with linkage "pip"
Provider = Literal["image", "pypi", "system", "debian", "redist"]
ABOUT_PROVIDER: Mapping[Provider, str] = {
    "image": "is the container image",
    "pypi": "NVIDIA's wheels, from CUDA 13 on",
    "system": "an installation of exactly this version",
    "debian": "Debian's compiler with NVIDIA's wheels (11.8 and 12.4)",
    "redist": "NVIDIA's archives (11.4 to 13.0)",
}
"""The toolkits of each provider, in the order in which they are tried, as the manifest's reference describes them."""
