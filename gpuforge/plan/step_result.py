"""What a step reports to the engine: a small file beside its outputs, with its error and what it counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuforge.diagnostics import Diagnostic, Place

FILE = "step-result.json"  # its name beside the outputs


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended: the error that it raised, if any, and its counts by name ("compiler_cache")."""

    error: Diagnostic | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        problem = self.error
        error = problem and {
            "message": problem.message,
            "place": problem.place and list(problem.place),
            "hint": problem.hint,
        }
        file.write_text(json.dumps({"error": error, "counts": dict(self.counts)}) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> StepResult:
        """Read what `write` wrote; empty when the step ended before it wrote anything whole."""
        try:
            data = json.loads(file.read_bytes())
            error = data["error"]
            if error:
                place = Place(*error["place"]) if error["place"] else None
                return cls(Diagnostic(error["message"], place, error["hint"]), data["counts"])
            return cls(None, data["counts"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
