"""The model's validation errors in terms of the manifest: what is wrong, where, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpuforge.manifest import fields
from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Problem, object_title, quote
from gpuforge.manifest.readings import number_text, reading

_EXPECTED = {
    "string_type": "a string",
    "tuple_type": "an array",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "bool_type": "true or false",
}
_MOST = 100
_TABLE_HINTS = {
    "package": 'write, for example, [package] with name = "example" and python = ["3.12"]',
}


def explain(error: ValidationError, data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield one problem for each error, in the model's order; of very many, the first ones and their number.

    `data` is the manifest as parsed.
    """
    details = [detail for detail in error.errors(include_url=False) if not _follows(detail)]
    for detail in details[:_MOST]:
        yield _problem(detail, data)
    if len(details) > _MOST:
        path = _written(details[_MOST]["loc"], data)
        yield Problem(path, f"{len(details) - _MOST:,} more errors", "fix the first ones", at_key=True)


def _follows(detail: ErrorDetails) -> bool:
    """Return whether this error only follows from another: an array counts as short when its items are wrong."""
    return detail["type"] == "default_factory_not_called" or (
        detail["type"] == "too_short" and bool(detail["input"])
    )


def subject(path: KeyPath, data: Mapping[str, Any]) -> str:
    """Name the table or key at `path` as a message does: `[cuda.13] archs`, `[[objects]] "core"`."""
    table, depth = data, 0
    value: Any = data
    for index, part in enumerate(path, start=1):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
        if isinstance(value, Mapping):
            table, depth = value, index
    key = next((fields.toml_key(part) for part in path[depth:] if isinstance(part, str)), "")
    return f"{_table_title(path[:depth], table)} {key}".strip() or "the manifest"


def _table_title(path: KeyPath, table: Mapping[str, Any]) -> str:
    if path[:1] == ("objects",) and len(path) == 2:
        return object_title(table)
    name = ".".join(fields.toml_key(part) for part in path if isinstance(part, str))
    if not name:
        return ""
    return f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]"


def _problem(detail: ErrorDetails, data: Mapping[str, Any]) -> Problem:
    location = detail["loc"]
    path = _written(location, data)
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in {"missing", "extra_forbidden"}:
        return (_missing if kind == "missing" else _unknown_key)(location, path, data)
    if kind == "form":
        return _wrong_form(path, context, data)
    if kind == "literal_error":
        return _not_a_choice(path, detail["input"], str(context["expected"]), data)
    if kind == "too_short":
        return Problem(path, f"{subject(path, data)} must not be empty", _example(location))
    if flat := _flat_commands(detail, location, path, data):
        return flat
    expected = _EXPECTED.get(kind)
    who = f"{'an item of ' if isinstance(path[-1], int) else ''}{subject(path, data)}"
    if expected is None:
        return Problem(path, f"{who}: {detail['msg']}")
    return _wrong_type(path, detail["input"], expected, who, location)


def _written(location: fields.Location, data: Mapping[str, Any]) -> KeyPath:
    """Leave out of a location the `<tags>` that only the model knows."""
    path: KeyPath = ()
    value: Any = data
    for part in location:
        if (
            isinstance(part, str)
            and part.startswith("<")
            and not (isinstance(value, Mapping) and part in value)
        ):
            continue
        path = (*path, part)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
    return path


def _missing(location: fields.Location, path: KeyPath, data: Mapping[str, Any]) -> Problem:
    if path in {("package",), ("cuda",)}:
        return Problem((), f"the manifest has no table [{path[0]}]", _TABLE_HINTS[str(path[0])])
    hint = _example_beside(path, _value_at(path[:-1], data)) or _example(location)
    return Problem(path[:-1], f"{subject(path[:-1], data)} has no `{path[-1]}`", hint)


_TOOLKITS = {"11": "11.8", "12": "12.4"}  # an example of each major


def _example_beside(path: KeyPath, table: Mapping[str, Any]) -> str:
    """Return an example for a missing key that fits the keys beside it; "" if any example fits."""
    if path[0] == "cuda" and path[-1] == "toolkit":
        return f"write, for example, toolkit = {quote(_TOOLKITS.get(str(path[1]), f'{path[1]}.0'))}"
    if path[-1] == "role":
        role = next((role for key, role in _ROLE_OF.items() if key in table), "fallback")
        return f"write, for example, role = {quote(role)}"
    return ""


_ROLE_OF = {"files": "host-only", "toolchains": "user-compiled"}


def _unknown_key(location: fields.Location, path: KeyPath, data: Mapping[str, Any]) -> Problem:
    table, key = path[:-1], str(path[-1])
    known = fields.known_keys(location[:-1])
    near = get_close_matches(key.lower().replace("_", "-"), known, n=1, cutoff=0.6)
    elsewhere = fields.owners_of(key)
    if near:
        hint = f"did you mean `{near[0]}`?"
    elif elsewhere:
        hint = f"`{elsewhere[0]}` is a key of {' and of '.join(elsewhere[1])}"
    else:
        hint = f"known keys: {', '.join(f'`{name}`' for name in known)}"
        if table == ("cuda",):
            hint += ', and a table for each toolkit: [cuda.13] or [cuda."12.4"]'
    shown = key if key.isprintable() and len(key) <= 60 else quote(key)
    return Problem(path, f"{subject(table, data)} has no key `{shown}`", hint, at_key=True)


def _wrong_form(path: KeyPath, context: Mapping[str, Any], data: Mapping[str, Any]) -> Problem:
    message, hint = str(context["message"]), str(context["hint"])
    if path[0] == "cuda" and path[-1] == "toolkit":
        hint = _example_beside(path, {})
    if path[-1] == "[key]":  # the name of an entry is wrong, not its value
        return Problem(path[:-1], f"{subject(path[:-2], data)}: {message}", hint, at_key=True)
    path = (*path, *context["at"])
    return Problem(path, message if context["names_subject"] else f"{subject(path, data)}: {message}", hint)


def _not_a_choice(path: KeyPath, found: object, expected: str, data: Mapping[str, Any]) -> Problem:
    choices = re.findall(r"'([^']*)'", expected)
    if not isinstance(found, str):
        message = f"{subject(path, data)} must be a string, not {_toml_type(found)}"
        return Problem(path, message, f"one of {', '.join(map(quote, choices))}")
    near = get_close_matches(found.lower(), choices, n=1, cutoff=0.6)
    message = f"{subject(path, data)}: {quote(found)} is not one of {', '.join(map(quote, choices))}"
    return Problem(path, message, f"did you mean {quote(near[0])}?" if near else "choose one of them")


def _flat_commands(
    detail: ErrorDetails, location: fields.Location, path: KeyPath, data: Mapping[str, Any]
) -> Problem | None:
    """Return the one problem of `before = ["make", "all"]`, where each word counts as a command of its own."""
    if detail["type"] != "tuple_type" or not isinstance(path[-1], int):
        return None
    commands = _value_at(path[:-1], data)
    meant = reading(commands, location[:-1])
    if meant is None:
        return None
    message = f"{subject(path[:-1], data)} must be an array of commands, each an array of words"
    return Problem(path[:-1], message, f"write {path[-2]} = {fields.toml(meant)}")


def _value_at(path: KeyPath, data: Mapping[str, Any]) -> Any:
    value: Any = data
    for part in path:
        value = value[part]
    return value


def _wrong_type(path: KeyPath, found: object, expected: str, who: str, location: fields.Location) -> Problem:
    message = f"{who} must be {expected}, not {_toml_type(found)}"
    meant = reading(found, location)
    if meant is not None:
        key = "" if isinstance(path[-1], int) else f"{fields.toml_key(str(path[-1]))} = "
        return Problem(path, message, f"write {key}{fields.toml(meant)}")
    return Problem(path, message, _example(location) or _header_hint(path, found, expected))


def _header_hint(path: KeyPath, found: object, expected: str) -> str:
    """Return the header of a table as it is written, if `expected` is a table or an array of tables; else ""."""
    name = ".".join(fields.toml_key(part) for part in path if isinstance(part, str))
    if expected == "a table":
        instead = f" instead of [[{name}]]" if isinstance(found, list) else " and its keys on lines below it"
        return f"write [{name}]{instead}"
    return f"write [[{name}]] instead of [{name}]" if isinstance(found, Mapping) else ""


def _toml_type(value: object) -> str:
    if isinstance(value, str):
        return f"the string {quote(value)}"
    if isinstance(value, bool):
        return number_text(value)
    if isinstance(value, int | float):
        return f"the number {number_text(value)}"
    if isinstance(value, datetime | date | time):
        return f"the date or time {value}"
    return "a table" if isinstance(value, Mapping) else "an array"


def _example(location: fields.Location) -> str:
    """Return a hint that shows how the key at this place, or the key whose array holds it, is written."""
    keys = location
    while keys and (isinstance(keys[-1], int) or str(keys[-1]).startswith("<")):
        keys = keys[:-1]
    example = fields.example_at(keys) if keys else ""
    return f"write, for example, {example}" if example else ""
