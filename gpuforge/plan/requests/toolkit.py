"""The request for a CUDA toolkit."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request
from gpuforge.toolkits.debian import Part
from gpuforge.toolkits.pypi import Pin
from gpuforge.toolkits.redist import Archives


@dataclass(frozen=True, kw_only=True)
class FetchToolkit(Request):
    """Assemble a toolkit in `output` from wheels of PyPI and parts of Debian's packages, or from NVIDIA's archives."""

    program: ClassVar[str] = "fetch_toolkit"
    pins: tuple[Pin, ...] = ()
    parts: tuple[Part, ...] = ()
    archives: Archives | None = None
    output: Path
