"""The model's own structure: the table and field at a path, and values written as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import Tag
from pydantic.fields import FieldInfo

from gpuforge.manifest.model import Manifest, Table

Location = tuple[str | int, ...]
"""A path through the model as pydantic reports it: keys, indices, and `<tags>` that the manifest does not write."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table as the manifest writes its header (`[cuda.<version>]`, `[[objects]]`), and its model."""

    header: str
    model: type[Table]


@cache
def sections() -> tuple[Section, ...]:
    """Return every table of the manifest, the top level first, each before those inside it."""
    found: list[Section] = []
    pending = [Section("", Manifest)]
    while pending:
        section = pending.pop(0)
        found.append(section)
        inside: list[Section] = []
        for key, field in keys_of(section.model).items():
            name = ".".join(filter(None, [section.header.strip("[]"), key if key != "<version>" else ""]))
            header = _header(name, field.annotation, key)
            inside.extend(Section(header, model) for model in tables_in(field.annotation))
        pending = inside + pending
    return tuple(found)


def _header(name: str, annotation: Any, key: str) -> str:
    kind = get_origin(_required(annotation))
    if kind is tuple:
        return f"[[{name}]]"
    if kind is Mapping:
        return f"[{name}.{key if key.startswith('<') else '<name>'}]"
    return f"[{name}]"


def keys_of(model: type[Table]) -> dict[str, FieldInfo]:
    """Return the fields of a table by the key that the manifest writes."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def tables_in(annotation: Any) -> Iterator[type[Table]]:
    """Yield the tables that a value of this type contains, or may be."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        if issubclass(annotation, Table):
            yield annotation
    else:
        for part in get_args(annotation):
            yield from tables_in(part)


def known_keys(table: Location) -> tuple[str, ...]:
    """Return the keys that the table at this place may have."""
    model = _required(_annotation(table))
    return tuple(key for key in keys_of(model) if not key.startswith("<")) if _is_table(model) else ()


def owners_of(key: str) -> tuple[str, list[str]] | None:
    """Return the known key nearest to `key` and the headers of the tables that have it; None if none is near."""
    owners = _owners()
    near = get_close_matches(key.lower().replace("_", "-"), owners, n=1, cutoff=0.8)
    return (near[0], owners[near[0]]) if near else None


@cache
def _owners() -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for section in sections():
        for name in keys_of(section.model) if section.header else ():
            owners.setdefault(name, []).append(f"`{section.header}`")
    return owners


def example_at(key: Location) -> str:
    """Return `key = value`, an example for the key at this place, or "" if its field has none."""
    model = _required(_annotation(key[:-1]))
    field = keys_of(model).get(str(key[-1])) if _is_table(model) else None
    return f"{key[-1]} = {toml(field.examples[0])}" if field and field.examples else ""


def annotation_at(key: Location) -> Any:
    """Return the type of the value at this place, with the forms that its text must have; None if there is none."""
    model = _required(_annotation(key[:-1]))
    if not _is_table(model):
        return _annotation(key)
    field = keys_of(model).get(str(key[-1]))
    if field is None:
        return None
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def is_command(annotation: Any) -> bool:
    """Return whether a type is the words of a command line, or of several: arrays of unrestricted text."""
    required = _required(annotation)
    if get_origin(required) is not tuple:
        return False
    item = get_args(required)[0]
    return item is str or is_command(item)


def toml(value: object) -> str:
    """Write plain data as a TOML value on one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_key(str(key))} = {toml(part)}" for key, part in value.items())
        return f"{{ {inside} }}" if inside else "{ }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(part) for part in value)}]"
    if isinstance(value, Table):
        return toml(value.model_dump(by_alias=True))
    return json.dumps(value, ensure_ascii=False)


def toml_key(key: str) -> str:
    """Write a key of a TOML table, in quotes where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _annotation(location: Location) -> Any:
    annotation: Any = Manifest
    for part in location:
        annotation = _step(_required(annotation), part)
    return annotation


def _step(annotation: Any, part: str | int) -> Any:
    if _is_table(annotation):
        field = keys_of(annotation).get(str(part))
        return field.annotation if field else None
    arguments = get_args(annotation)
    if get_origin(annotation) in {Union, UnionType}:
        return next((a for a in arguments if Tag(str(part)) in getattr(a, "__metadata__", ())), None)
    if get_origin(annotation) is tuple:
        return arguments[0]
    return arguments[1] if len(arguments) == 2 else None


def _required(annotation: Any) -> Any:
    """Strip `Annotated` and `| None` from a type."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in {Union, UnionType}:
        others = [part for part in get_args(annotation) if part is not NoneType]
        if len(others) == 1:
            return _required(others[0])
    return annotation


def _is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, Table)
