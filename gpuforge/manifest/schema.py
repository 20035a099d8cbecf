"""The JSON Schema of `gpuforge.toml`, and its reference page `docs/manifest.md`: generated from the model."""

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby, pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gpuforge.manifest import model as models
from gpuforge.manifest.forms import Form, OneOrMany
from gpuforge.manifest.model import ROLE_KEYS, Manifest, Object, Table
from gpuforge.manifest.problem import toml_key

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTITY = "urn:gpuforge:manifest:1"


def _describe() -> None:
    """Describe the fields of the models by the docstrings below them: each build would be slower if pydantic did it."""
    for found in ast.parse(inspect.getsource(models)).body:
        cls = getattr(models, found.name) if isinstance(found, ast.ClassDef) else None
        if not (isinstance(found, ast.ClassDef) and isinstance(cls, type) and issubclass(cls, Table)):
            continue
        inherited = [base for base in cls.__bases__ if issubclass(base, Table)]
        texts = {name: field.description for base in inherited for name, field in base.model_fields.items()}
        for line, below in pairwise(found.body):
            if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr):
                texts[ast.unparse(line.target)] = inspect.cleandoc(ast.literal_eval(below.value))
        for name, field in cls.model_fields.items():
            field.description = field.description or texts.get(name)
        cls.model_rebuild(force=True)


def json_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) that every manifest which loads conforms to.

    It has types, choices, forms and required keys; a schema cannot express the conditions in `checks`.
    """
    generated = Manifest.model_json_schema(by_alias=True, mode="validation")
    definitions = {name: _for_toml(part) for name, part in generated.pop("$defs").items()}
    definitions["Cuda"] = _with_versions(definitions["Cuda"], definitions["CudaVersion"])
    objects = definitions["Object"]
    lists = {key for key, value in objects["properties"].items() if value.get("type") == "array"}
    objects["allOf"] = [_role(role, lists) for role in ROLE_KEYS]
    return {
        "$schema": DIALECT,
        "$id": IDENTITY,
        **_for_toml(generated),
        "title": "gpuforge.toml",
        "$defs": definitions,
    }


def _for_toml(part: Any) -> Any:
    """Drop parts that TOML editors do not use: titles made from names, nulls, defaults of whole tables."""
    if isinstance(part, list):
        return [_for_toml(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: _for_toml(value) for key, value in part.items() if key not in {"title", "default", "properties"}
    }
    if "properties" in part:  # here the names are the manifest's keys
        kept["properties"] = {key: _for_toml(value) for key, value in part["properties"].items()}
    default = part.get("default")
    if default is not None and "$ref" not in part and "oneOf" not in part:
        kept["default"] = default
    if "patternProperties" in kept:
        kept["additionalProperties"] = False
    if "description" in kept:
        kept["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", kept["description"])
    choices = [choice for choice in kept.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        kept.pop("anyOf")
        return choices[0] | kept
    return kept


def _with_versions(cuda: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """Add `[cuda.12]` and `[cuda."12.4"]`, tables beside the keys of `[cuda]`; the first must name its toolkit."""
    properties = {key: value for key, value in cuda["properties"].items() if not key.startswith("<")}
    reference = {"$ref": "#/$defs/CudaVersion"}
    version["required"] = [key for key in version["required"] if key != "toolkit"]
    patterns = {
        r"^[0-9]+$": {"allOf": [reference, {"required": ["toolkit"]}]},
        r"^[0-9]+\.[0-9]+$": reference,
    }
    return {**cuda, "properties": properties, "patternProperties": patterns}


def _role(role: str, arrays: set[str]) -> dict[str, Any]:
    """Return the keys that an object of this role must have (arrays not empty) and cannot have."""
    keys = ROLE_KEYS[role]
    every = {key for other in ROLE_KEYS.values() for key in other.required + other.optional}
    lists = [key for key in keys.required if key in arrays]
    refused = sorted(every - {*keys.required, *keys.optional})
    return {
        "if": {"properties": {"role": {"const": role}}, "required": ["role"]},
        "then": {
            "required": list(keys.required),
            "properties": {key: {"minItems": 1} for key in lists} | dict.fromkeys(refused, False),
        },
    }


UNIONS = frozenset({Union, UnionType})
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
    groups = [(header, list(group)) for header, group in groupby(sections(), key=lambda s: s.header)]
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
    for key, field in keys_of(model).items():
        if not key.startswith("<"):
            yield _key(key, field)


def _key(key: str, field: FieldInfo) -> str:
    inside = list(tables_in(field.annotation))
    description = field.description or (
        inspect.cleandoc(inside[0].__doc__ or "").split("\n\n")[0] if inside else ""
    )
    # a table named by the version gives it, which the model cannot say
    presence = "required, unless the table's name is the version" if key == "toolkit" else _default(field)
    lines = [f"**`{key}`** · {_type(field)} · {presence}", "", *description.split("\n")]
    if field.examples and not (key == "schema" or inside):
        lines += ["", f"Example: `{key} = {toml(field.examples[0])}`"]
    return "\n".join(lines) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if default in (None, PydanticUndefined) or isinstance(default, Mapping):
        return "optional"
    return f"default `{toml(default)}`"


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
    if kind in UNIONS:
        return " or ".join(dict.fromkeys(_noun(part, plural) for part in arguments if part is not NoneType))
    if kind is Literal:
        return " \\| ".join(f"`{toml(value)}`" for value in arguments)
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
    for key in keys_of(Object):
        if key in used:
            marks = [
                "required" if key in role.required else "optional" if key in role.optional else ""
                for role in ROLE_KEYS.values()
            ]
            rows.append(f"| `{key}` | " + " | ".join(marks) + " |")
    return "Which keys go with which role:\n\n" + "\n".join(rows) + "\n"


class Section(NamedTuple):
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
    kind = get_origin(required(annotation))
    if kind is tuple:
        return f"[[{name}]]"
    if kind is Mapping:
        return f"[{name}.{key if key.startswith('<') else '<name>'}]"
    return f"[{name}]"


def keys_of(model: type[Table]) -> dict[str, FieldInfo]:
    """Return the fields of a table by the key that the manifest writes."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


_describe()


def tables_in(annotation: Any) -> Iterator[type[Table]]:
    """Yield the tables that a value of this type contains, or may be."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        if issubclass(annotation, Table):
            yield annotation
    else:
        for part in get_args(annotation):
            yield from tables_in(part)


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


def required(annotation: Any) -> Any:
    """Strip `Annotated` and `| None` from a type."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in UNIONS:
        others = [part for part in get_args(annotation) if part is not NoneType]
        if len(others) == 1:
            return required(others[0])
    return annotation


def is_table(annotation: Any) -> TypeGuard[type[Table]]:
    """Return whether a type is a table of the manifest."""
    return isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, Table)
