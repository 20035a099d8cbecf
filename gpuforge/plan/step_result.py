"""The report of a step to the engine: a small file beside its outputs, with its error and its counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuforge import tree
from gpuforge.diagnostics import Diagnostic, Place

FILE = "step-result.json"  # its name beside the outputs
MOST = 1_000_000  # bytes of it that are read


@dataclass(frozen=True, slots=True)
class StepResult:
    """How a step ended: the error that it raised, if any, and its counts by name ("compiler_cache").

    `notes` are the lines that explain the error better than the end of the step's log.
    """

    error: Diagnostic | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        problem = self.error
        error = problem and {
            "message": problem.message,
            "place": problem.place and list(problem.place),
            "hint": problem.hint,
        }
        data = {"error": error, "counts": dict(self.counts), "notes": self.notes}
        file.write_text(json.dumps(data) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> StepResult:
        """Read the file that `write` wrote; the result is empty if the step ended before the file was complete.

        A project's build can write there, too: a file of another form is ignored, and pipes are not opened.
        """
        try:
            data = json.loads(tree.read(file.parent, file.name, MOST))
            counts = data["counts"] if isinstance(data["counts"], dict) else {}
            error = data["error"]
            if not error:
                return cls(None, counts)
            place = Place(*error["place"]) if error["place"] else None
            notes = tuple(data["notes"])
            words = (error["message"], error["hint"], *notes, *(place[:1] if place else ()))
            is_sound = all(isinstance(word, str) for word in words) and all(
                isinstance(number, int) for number in (place or ())[1:]
            )
            return (
                cls(Diagnostic(error["message"], place, error["hint"]), counts, notes) if is_sound else cls()
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return cls()
