"""What the requests have in common that need to know the pip packages of a toolkit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True, kw_only=True)
class WithToolkitPackages(Request):
    """A request with the versions of the pip packages of the toolkit that a wheel was linked with."""

    pins: Mapping[str, str] = field(default_factory=dict)
    pins_file: Path | None = None  # a file of the toolkit with more of them, as JSON

    def all_pins(self) -> dict[str, str]:
        """Return the packages with their versions, those in the file too."""
        return {**self.pins, **(json.loads(self.pins_file.read_bytes()) if self.pins_file else {})}
