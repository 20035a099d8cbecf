"""The JSON Schema of `gpuforge.toml`, generated from the model, for editors and other checkers."""

from __future__ import annotations

import re
from typing import Any

from gpuforge.manifest.model.manifest import Manifest
from gpuforge.manifest.roles import ROLE_KEYS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTITY = "urn:gpuforge:manifest:1"


def json_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) that every manifest which loads conforms to.

    It has types, choices, forms and required keys; a schema cannot express the conditions in `relations`.
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
