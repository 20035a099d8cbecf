"""Makes values of toolkits from the rows of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError

T = TypeVar("T")


def read(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return a dataclass with the fields in `data`; raises UsageError for each that is missing or of another type."""
    try:
        value: T = TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        raise UsageError.all_of(
            Diagnostic(f"{kind.__name__}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}")
            for problem in error.errors()
        ) from None
    return value
