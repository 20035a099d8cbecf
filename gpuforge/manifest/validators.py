"""Validators of the manifest's values: the form of a text, arrays of distinct items, one item instead of an array."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from gpuforge.manifest.quoting import quote


def wrong(
    message: str, hint: str = "", at: tuple[int | str, ...] = (), *, names_subject: bool = False
) -> PydanticCustomError:
    """Make the error that a validator raises; `at` leads from its value to the part that is wrong.

    With `names_subject`, the message itself names the table or key.
    """
    context = {"message": message, "hint": hint, "at": at, "names_subject": names_subject}
    return PydanticCustomError("form", "{message}", context)


@dataclass(frozen=True, slots=True)
class Form:
    """Text that must match `pattern` (also given to editors by the JSON schema) and that `parse` accepts."""

    what: str
    hint: str
    pattern: str = r"\S"
    parse: Callable[[str], object] | None = None
    # returns the value of a text of another form, or raises ValueError
    meant: Callable[[str], str] | None = None

    def validate(self, text: str) -> str:
        """Return `text` unchanged; raises PydanticCustomError when it does not have this form."""
        if not re.search(self.pattern, text) or text.endswith("\n") or not self._parses(text):
            message = f"{quote(text)} is not {self.what}" if text.strip() else "must not be empty"
            raise wrong(message, self._hint(text))
        return text

    def _hint(self, text: str) -> str:
        if self.meant:
            with suppress(ValueError):
                if re.search(self.pattern, meant := self.meant(text)):
                    return f"write {quote(meant)}"
        return self.hint

    def _parses(self, text: str) -> bool:
        if self.parse is None:
            return True
        try:
            self.parse(text)
        except ValueError:  # packaging's errors are ValueErrors
            return False
        return True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}


class Checked:
    """The base of annotations whose `validate` takes a value that has its type, and returns it or raises."""

    validate: ClassVar[Any]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls.validate, handler(source))


class Wrapped:
    """The base of annotations whose `wrap` turns a value of the manifest into a value of the type."""

    wrap: ClassVar[Any]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(cls.wrap, handler(source))


class Distinct(Checked):
    """An annotation for arrays: no item may come twice."""

    @staticmethod
    def validate(values: tuple[str, ...]) -> tuple[str, ...]:
        """Return `values` unchanged; raises PydanticCustomError when one of them is repeated."""
        for index, value in enumerate(values):
            if value in values[:index]:
                raise wrong(f"{quote(value)} is listed twice", "remove one of them", (index,))
        return values

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "uniqueItems": True}


class OneOrMany(Wrapped):
    """An annotation for arrays: a single item may stand for an array of one."""

    @staticmethod
    def wrap(value: object) -> object:
        """Return an array of a single piece of text; anything else as it is."""
        return (value,) if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        array = handler(schema)
        return {"anyOf": [array["items"], array]}


class CommonOrMany(Wrapped):
    """An annotation for the array of architectures: the word "common" alone may stand for an array of it."""

    @staticmethod
    def wrap(value: object) -> object:
        """Return an array of the word; anything else as it is."""
        return (value,) if value == "common" else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"const": "common"}, handler(schema)]}
