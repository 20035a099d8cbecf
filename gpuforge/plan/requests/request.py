"""A request as a file: JSON of a frozen dataclass, checked when it is read."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError
from gpuforge.plan.literal import literal


@dataclass(frozen=True)
class Request:
    """The base of every request. `program` is the module of `gpuforge.steps` that reads it.

    Until the action runs, its paths, and the strings in its fields `filled`, may hold placeholders of the action
    (`${in:wheel}`). In other strings `$` is a `$`.
    """

    program: ClassVar[str]
    filled: ClassVar[tuple[str, ...]] = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def plain(self) -> dict[str, Any]:
        """Return the fields for its file; `dump` writes what JSON has no form for."""
        return dict(vars(self))


R = TypeVar("R", bound=Request)


def dump(request: Request) -> str:
    """Return a request as JSON for an action, which fills its placeholders: the same text for equal requests."""
    values = request.plain().items()
    written = {name: value if name in request.filled else _literal(value) for name, value in values}
    return json.dumps(written, default=str, sort_keys=True)


def _literal(value: Any) -> Any:
    """Return data for JSON, with no placeholder in any string; paths stay as they are."""
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, (list, tuple)):
        return [_literal(each) for each in value]
    if isinstance(value, dict):
        return {name: _literal(each) for name, each in value.items()}
    if value is not None and is_dataclass(value):
        return {each.name: _literal(getattr(value, each.name)) for each in fields(value)}
    return value


def load(kind: type[R], text: str | bytes) -> R:
    """Read a request; raises UsageError with everything that is wrong in it."""
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise UsageError.all_of(
            Diagnostic(f"request: {'.'.join(map(str, problem['loc'])) or 'JSON'}: {problem['msg']}")
            for problem in error.errors()
        ) from error
