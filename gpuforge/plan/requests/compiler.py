"""The request for a host compiler."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request
from gpuforge.toolkits.debian_parts import DebianPart


@dataclass(frozen=True, kw_only=True)
class FetchCompiler(Request):
    """Unpack a compiler from Debian's packages into `output`."""

    program: ClassVar[str] = "fetch_compiler"
    parts: tuple[DebianPart, ...]
    output: Path
