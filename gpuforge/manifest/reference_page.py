"""The reference page of `gpuforge.toml`, `docs/manifest.md`, generated from the model and its docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from itertools import groupby
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gpuforge.manifest import fields
from gpuforge.manifest.model.object import Object
from gpuforge.manifest.model.table import Table
from gpuforge.manifest.roles import ROLE_KEYS
from gpuforge.manifest.validators import Form, OneOrMany

_OPENING = """\
<!-- Generated: `gpuforge schema --format markdown > docs/manifest.md`. Change the model's docstrings instead. -->

# The manifest: `gpuforge.toml`

One TOML file beside the project declares what is built, with which compilers and CUDA toolkits, and which files may
hold code of a GPU toolchain. [`gpuforge.toml.example`](../gpuforge.toml.example) is a complete one, with comments.

- Unknown keys are errors. The hint names the nearest known key, its table, or all of them.
- All errors in the keys are reported at once, each as `file:line:column: message`, most with a hint. A TOML syntax
  error is reported alone; errors that only planning finds are reported after all others are corrected.
- Relative paths start from the manifest's folder.
- Editors that know TOML schemas (Even Better TOML, Taplo) complete and check the file while you type: run
  `gpuforge schema > gpuforge.schema.json` and begin the manifest with `#:schema ./gpuforge.schema.json`.
"""


def reference() -> str:
    """Return the page as Markdown: a section for each table, in it each key with type, default and example."""
    groups = [(header, list(group)) for header, group in groupby(fields.sections(), key=lambda s: s.header)]
    parts = [_OPENING]
    for header, group in groups:
        parts.append(f"## `{header}`\n" if header else "## The top level\n")
        if len(group) > 1:
            parts.append(f"Write exactly one of {len(group)} forms.\n")
        for number, section in enumerate(group, 1):
            if len(group) > 1:
                parts.append(f"### Form {number}\n")
            parts.extend(_table(section.model))
        if header == "[[objects]]":
            parts.append(_roles())
    return "\n".join(parts)


def _table(model: type[Table]) -> Iterator[str]:
    yield inspect.cleandoc(model.__doc__ or "") + "\n"
    for key, field in fields.keys_of(model).items():
        if not key.startswith("<"):
            yield _key(key, field)


def _key(key: str, field: FieldInfo) -> str:
    inside = list(fields.tables_in(field.annotation))
    description = field.description or (
        inspect.cleandoc(inside[0].__doc__ or "").split("\n\n")[0] if inside else ""
    )
    lines = [f"**`{key}`** · {_type(field)} · {_default(field)}", "", *description.split("\n")]
    if field.examples and not (key == "schema" or inside):
        lines += ["", f"Example: `{key} = {fields.toml(field.examples[0])}`"]
    return "\n".join(lines) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if default in (None, PydanticUndefined) or isinstance(default, Mapping):
        return "optional"
    if isinstance(default, Table) and not any(getattr(default, name) for name in default.model_fields_set):
        return "optional"
    return f"default `{fields.toml(default)}`"


def _type(field: FieldInfo) -> str:
    """Return a field's type in words, with what form its text has: "array of strings, each a requirement"."""
    annotation = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    words = _noun(annotation)
    form = next(_forms(annotation), None)
    if form is None or form.what == "text":
        return words
    return f"{words}, {'' if words == 'string' else 'each '}{form.what}"


def _noun(annotation: Any, plural: str = "") -> str:
    arguments, kind = get_args(annotation), get_origin(annotation)
    if kind is Annotated:
        one = f"{_noun(get_args(arguments[0])[0], plural)} or " if OneOrMany in arguments else ""
        return one + _noun(arguments[0], plural)
    if kind in {Union, UnionType}:
        return " or ".join(dict.fromkeys(_noun(part, plural) for part in arguments if part is not NoneType))
    if kind is Literal:
        return " \\| ".join(f"`{fields.toml(value)}`" for value in arguments)
    if kind is tuple:
        return f"array{plural} of {_noun(arguments[0], 's')}"
    if kind is Mapping:
        return f"table{plural} of {_noun(arguments[1], 's')}"
    return {str: f"string{plural}", bool: "true or false"}.get(annotation, f"table{plural}")


def _forms(annotation: Any) -> Iterator[Form]:
    """Yield the forms of the text that a value consists of; the keys of a table of values are not part of it."""
    if get_origin(annotation) is Annotated:
        yield from (part for part in annotation.__metadata__ if isinstance(part, Form))
    if get_origin(annotation) is not Mapping:
        for part in get_args(annotation):
            yield from _forms(part)


def _roles() -> str:
    used = {key for role in ROLE_KEYS.values() for key in role.required + role.optional}
    rows = ["| | " + " | ".join(f"`{role}`" for role in ROLE_KEYS) + " |", "|---|" + "---|" * len(ROLE_KEYS)]
    for key in fields.keys_of(Object):
        if key in used:
            marks = [
                "required" if key in role.required else "optional" if key in role.optional else ""
                for role in ROLE_KEYS.values()
            ]
            rows.append(f"| `{key}` | " + " | ".join(marks) + " |")
    return "Which keys go with which role:\n\n" + "\n".join(rows) + "\n"
