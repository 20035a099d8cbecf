"""How a wheel is linked with CUDA's libraries, and how it requires them."""

from typing import Literal

Linkage = Literal["pip", "bundle", "system", "static"]
Requires = Literal["always", "extra"]  # with linkage "pip"
