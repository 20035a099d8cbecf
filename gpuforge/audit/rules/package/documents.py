"""What is wrong with a document of gpuforge's in a wheel, for the text of findings."""

from __future__ import annotations

from gpuforge.audit.kernels import Unusable


def problem(document: Unusable, schema: str) -> tuple[str, str]:
    """Return the kind of a problem and the same in words; `schema` are those for a document that does not fit."""
    match document.kind:
        case "size":
            return "unreadable", f"it is {document.fact} bytes long"
        case "syntax":
            return "unreadable", f"it is not JSON ({document.fact})"
        case "type":
            return "unreadable", "it is not a JSON object"
        case "schema":
            return "schema", schema
