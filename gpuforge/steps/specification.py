"""What a step is asked to do, when that is more than a few words: JSON on its command line, checked on entry."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError


class Specification(BaseModel):
    """The base of every specification: frozen, and no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a specification from JSON; raises UsageError with everything that is wrong in it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise UsageError.all_of(
                Diagnostic(f"--spec: {'.'.join(map(str, problem['loc'])) or 'JSON'}: {problem['msg']}")
                for problem in error.errors()
            ) from error
