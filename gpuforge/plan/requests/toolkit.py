"""The request for a CUDA toolkit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class FetchToolkit(Request):
    """Assemble a toolkit in `output` from the files of `source`, which the provider of this name reads."""

    program: ClassVar[str] = "fetch_toolkit"
    provider: str
    source: Mapping[str, Any]
    output: Path
