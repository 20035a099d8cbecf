"""The providers of CUDA toolkits, by the names that manifests use, in the order in which they are tried."""

from collections.abc import Mapping
from typing import Literal

Provider = Literal["image", "pypi", "system", "debian", "redist"]
ABOUT: Mapping[Provider, str] = {
    "image": "is the container image",
    "pypi": "NVIDIA's wheels, from CUDA 13 on",
    "system": "an installation of exactly this version",
    "debian": "Debian's compiler with NVIDIA's wheels (11.8 and 12.4)",
    "redist": "NVIDIA's archives (11.4 to 13.0)",
}
"""The toolkits of each provider, as the manifest's reference describes them."""
