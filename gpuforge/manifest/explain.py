"""The model's validation errors in terms of the manifest: what is wrong, where, and what to write instead."""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin

from pydantic import Tag, ValidationError
from pydantic_core import ErrorDetails

from gpuforge.manifest.model import Manifest
from gpuforge.manifest.problem import KeyPath, Problem, number_text, object_title, quote, toml_key
from gpuforge.manifest.schema import UNIONS, is_table, keys_of, required, sections, toml

Location = tuple[str | int, ...]
"""A path through the model as pydantic reports it: keys, indices, and `<tags>` that the manifest does not write."""
_EXPECTED = {
    "string_type": "a string",
    "tuple_type": "an array",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a table"),
    "bool_type": "true or false",
}
_MOST = 100
_PACKAGE_HINT = 'write, for example, [package] with name = "example" and python = ["3.12"]'
_TOOLKITS = {"11": "11.8", "12": "12.4"}  # an example of each major


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
    short = detail["type"] == "too_short" and bool(detail["input"])
    return short or detail["type"] == "default_factory_not_called"


def _written(location: Location, data: Mapping[str, Any]) -> KeyPath:
    """Leave out of a location the `<tags>` that only the model knows."""
    path: KeyPath = ()
    value: Any = data
    for part in location:
        is_tag = isinstance(part, str) and part.startswith("<")
        if is_tag and not (isinstance(value, Mapping) and part in value):
            continue
        path = (*path, part)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            value = None
    return path


def _subject(path: KeyPath, data: Mapping[str, Any]) -> str:
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
    key = next((toml_key(part) for part in path[depth:] if isinstance(part, str)), "")
    owner = path[:depth]
    title = name = ".".join(toml_key(part) for part in owner if isinstance(part, str))
    if owner[:1] == ("objects",) and depth == 2:
        title = object_title(table)
    elif name:
        title = f"[[{name}]]" if isinstance(owner[-1], int) else f"[{name}]"
    return f"{title} {key}".strip() or "the manifest"


def _problem(detail: ErrorDetails, data: Mapping[str, Any]) -> Problem:
    location, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    path = _written(location, data)
    if kind in {"missing", "extra_forbidden"}:
        return (_missing if kind == "missing" else _unknown_key)(location, path, data)
    if kind == "form":
        return _wrong_form(path, context, data)
    if kind == "literal_error":
        return _not_a_choice(path, detail["input"], str(context["expected"]), data)
    if kind == "too_short":
        return Problem(path, f"{_subject(path, data)} must not be empty", _example(location))
    who = f"{'an item of ' if isinstance(path[-1], int) else ''}{_subject(path, data)}"
    if kind not in _EXPECTED:
        return Problem(path, f"{who}: {detail['msg']}")
    return _wrong_type(path, detail["input"], _EXPECTED[kind], who, location)


def _missing(location: Location, path: KeyPath, data: Mapping[str, Any]) -> Problem:
    if path == ("package",):
        return Problem((), "the manifest has no table [package]", _PACKAGE_HINT)
    return Problem(path[:-1], f"{_subject(path[:-1], data)} has no `{path[-1]}`", _example(location))


def _unknown_key(location: Location, path: KeyPath, data: Mapping[str, Any]) -> Problem:
    table, key = path[:-1], str(path[-1])
    model = required(_annotation(location[:-1]))
    known = [name for name in keys_of(model) if not name.startswith("<")] if is_table(model) else []
    spelled = key.lower().replace("_", "-")
    near = get_close_matches(spelled, known, n=1, cutoff=0.6)
    owners: dict[str, list[str]] = {}
    for section in sections():
        for name in keys_of(section.model) if section.header else ():
            above = f"`{section.header.rpartition('.')[0]}]`"
            if above not in owners.setdefault(name, []):  # else the key has the same meaning there
                owners[name].append(f"`{section.header}`")
    elsewhere = get_close_matches(spelled, owners, n=1, cutoff=0.8)
    if near and (near[0] == spelled or spelled not in owners):
        hint = f"did you mean `{near[0]}`?"
    elif elsewhere:
        hint = f"`{elsewhere[0]}` is a key of {' and of '.join(owners[elsewhere[0]])}"
    else:
        hint = f"known keys: {', '.join(f'`{name}`' for name in known)}"
        if table == ("cuda",):
            hint += ', and a table for each toolkit: [cuda.13] or [cuda."12.4"]'
    shown = key if key.isprintable() and len(key) <= 60 else quote(key)
    return Problem(path, f"{_subject(table, data)} has no key `{shown}`", hint, at_key=True)


def _wrong_form(path: KeyPath, context: Mapping[str, Any], data: Mapping[str, Any]) -> Problem:
    message, hint = str(context["message"]), str(context["hint"])
    if path[-1] == "[key]":  # the name of an entry is wrong, not its value
        return Problem(path[:-1], f"{_subject(path[:-2], data)}: {message}", hint, at_key=True)
    path = (*path, *context["at"])
    return Problem(path, message if context["names_subject"] else f"{_subject(path, data)}: {message}", hint)


def _not_a_choice(path: KeyPath, found: object, expected: str, data: Mapping[str, Any]) -> Problem:
    choices = re.findall(r"'([^']*)'", expected)
    listed = ", ".join(map(quote, choices))
    if not isinstance(found, str):
        return Problem(
            path, f"{_subject(path, data)} must be a string, not {_toml_type(found)}", f"one of {listed}"
        )
    near = get_close_matches(found.lower(), choices, n=1, cutoff=0.6)
    message = f"{_subject(path, data)}: {quote(found)} is not one of {listed}"
    return Problem(path, message, f"did you mean {quote(near[0])}?" if near else "choose one of them")


def _wrong_type(path: KeyPath, found: object, expected: str, who: str, location: Location) -> Problem:
    message = f"{who} must be {expected}, not {_toml_type(found)}"
    if expected == "a string" and not isinstance(found, Mapping | list):
        return Problem(path, message, _example(location) or "put it in quotes")
    name = ".".join(toml_key(part) for part in path if isinstance(part, str))
    header = f"write [[{name}]] instead of [{name}]" if isinstance(found, Mapping) else ""
    if expected == "a table":
        tables = isinstance(found, list) and all(isinstance(item, Mapping) for item in found)
        instead = f" instead of [[{name}]]" if tables else " and its keys on lines below it"
        header = f"write [{name}]{instead}"
    return Problem(path, message, _example(location) or header)


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


def _example(location: Location) -> str:
    """Return a hint that shows how the key at this place, or the key whose array holds it, is written."""
    keys = location
    while keys and (isinstance(keys[-1], int) or str(keys[-1]).startswith("<")):
        keys = keys[:-1]
    if keys[-1:] == ("toolkit",):
        return f"write, for example, toolkit = {quote(_TOOLKITS.get(str(keys[-2]), f'{keys[-2]}.0'))}"
    model: Any = required(_annotation(keys[:-1])) if keys else None
    field = keys_of(model).get(str(keys[-1])) if is_table(model) else None
    if not (field and field.examples):
        return ""
    return f"write, for example, {keys[-1]} = {toml(field.examples[0])}"


def _annotation(location: Location) -> Any:
    """Return the type of the value at this place of the model; None if there is none."""
    annotation: Any = Manifest
    for part in location:
        annotation = _step(required(annotation), part)
    return annotation


def _step(annotation: Any, part: str | int) -> Any:
    if is_table(annotation):
        field = keys_of(annotation).get(str(part))
        if field is None:
            return None
        return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    arguments = get_args(annotation)
    if get_origin(annotation) in UNIONS:
        return next((a for a in arguments if Tag(str(part)) in getattr(a, "__metadata__", ())), None)
    if get_origin(annotation) is tuple:
        return arguments[0]
    return arguments[1] if len(arguments) == 2 else None
