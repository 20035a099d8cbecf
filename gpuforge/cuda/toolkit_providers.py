"""The names of the providers of CUDA toolkits, as manifests use them, in the order in which they are tried."""

from typing import Literal

Provider = Literal["image", "pypi", "system", "debian", "redist"]
