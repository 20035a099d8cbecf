"""The request for a CUDA toolkit."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request
from gpuforge.toolkits.toolkit import ToolkitFiles


@dataclass(frozen=True, kw_only=True)
class FetchToolkit(Request):
    """Assemble a toolkit in `output` from the files of `source`, which the provider of this name offered."""

    program: ClassVar[str] = "fetch_toolkit"
    provider: str
    source: ToolkitFiles
    output: Path
