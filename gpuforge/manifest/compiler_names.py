"""The names that `[toolchains.*] compiler` may have: gpuforge's own toolchains and those of installed plug-ins."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError

from gpuforge.manifest.validators import Checked
from gpuforge.toolchain_names import GROUP, OWN


class CompilerName(Checked):
    """An annotation for text: the name of a toolchain."""

    @staticmethod
    def validate(text: str) -> str:
        """Return `text` unchanged; raises PydanticKnownError when no toolchain has this name."""
        if text in OWN or text in (others := sorted({entry.name for entry in entry_points(group=GROUP)})):
            return text
        expected = ", ".join(f"'{name}'" for name in (*OWN, *others))
        raise PydanticKnownError("literal_error", {"expected": expected})

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """List gpuforge's own; a name of a plug-in is any other text."""
        return {"anyOf": [{"enum": list(OWN)}, {**handler(schema), "minLength": 1}]}
