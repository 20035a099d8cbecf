"""A request as a file: JSON of a frozen dataclass, checked when it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError


@dataclass(frozen=True)
class Request:
    """The base of every request. `program` is the module of `gpuforge.steps` that reads it.

    Its paths may be placeholders of an action (`${in:wheel}`) until the action runs.
    """

    program: ClassVar[str]
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def plain(self) -> dict[str, Any]:
        """Return the fields for its file; `dump` writes what JSON has no form for."""
        return dict(vars(self))


R = TypeVar("R", bound=Request)


def dump(request: Request) -> str:
    """Return a request as JSON, the same text for equal requests."""
    return json.dumps(request.plain(), default=_written, sort_keys=True)


def _written(value: object) -> object:
    """Return the fields of a dataclass, and the text of a path or version."""
    return {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else str(value)


def load(kind: type[R], text: str | bytes) -> R:
    """Read a request; raises UsageError with everything that is wrong in it."""
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise UsageError.all_of(
            Diagnostic(f"request: {'.'.join(map(str, problem['loc'])) or 'JSON'}: {problem['msg']}")
            for problem in error.errors()
        ) from error
