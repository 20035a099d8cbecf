"""`[[objects]]`: the keys of each role, the toolchains that objects name, and their own names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Problem, Raw, numbered, object_title
from gpuforge.manifest.quoting import quote
from gpuforge.manifest.roles import ROLE_KEYS, RoleKeys

_ROLE_HINTS: Mapping[str, str] = {
    "files": 'patterns of files in the built wheel, e.g. files = ["**/*.so"]',
    "sources": 'patterns of source files beside the manifest, e.g. sources = ["kernels/*.cu"]',
    "toolchain": 'the name of one of the [toolchains], e.g. toolchain = "device"',
    "toolchains": 'names of [toolchains] in the order to try them in, e.g. toolchains = ["acc", "host"]',
}


def objects(data: Raw) -> Iterator[Problem]:
    """Yield keys that an object's role needs or does not have, and toolchains that are not declared."""
    declared = data.get("toolchains", {})
    for index, thing in numbered(data.get("objects")):
        role = thing.get("role")
        keys = ROLE_KEYS.get(role) if isinstance(role, str) else None
        title = object_title(thing)
        if keys is not None:
            yield from _role_keys(("objects", index), title, thing, keys)
        likely = quote("nvcc" if role == "fallback" else "g++")
        if isinstance(declared, Mapping):
            for path, name in _references(("objects", index), thing):
                if name not in declared:
                    yield Problem(
                        path,
                        f"{title} names the toolchain {quote(name)}, which is not declared",
                        f"declared toolchains: {', '.join(declared)}"
                        if declared
                        else f"add a table [toolchains.{name}] with compiler = {likely}",
                    )


def _role_keys(path: KeyPath, title: str, thing: Raw, keys: RoleKeys) -> Iterator[Problem]:
    role = thing["role"]
    known = {key for role_keys in ROLE_KEYS.values() for key in role_keys.required + role_keys.optional}
    for key in keys.required:
        if key not in thing:
            yield Problem(path, f"{title} needs `{key}`, because its role is {quote(role)}", _ROLE_HINTS[key])
        elif thing[key] == []:
            yield Problem((*path, key), f"{title}: `{key}` must not be empty", _ROLE_HINTS[key])
    for key in thing:
        if key in known and key not in keys.required + keys.optional:
            owners = [
                quote(owner) for owner, owned in ROLE_KEYS.items() if key in owned.required + owned.optional
            ]
            yield Problem(
                (*path, key),
                f"{title} has `{key}`, which its role {quote(role)} does not take",
                f"`{key}` belongs to {' and '.join(owners)}; "
                f"{quote(role)} takes {', '.join(f'`{k}`' for k in keys.required + keys.optional)}",
                at_key=True,
            )


def _references(path: KeyPath, thing: Raw) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(name := thing.get("toolchain"), str):
        yield (*path, "toolchain"), name
    names = thing.get("toolchains")
    for index, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str):
            yield (*path, "toolchains", index), name


def names(data: Raw) -> Iterator[Problem]:
    """Yield names that two objects have."""
    seen: set[str] = set()
    for index, thing in numbered(data.get("objects")):
        name = thing.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Problem(
                    ("objects", index, "name"),
                    f"two objects have the name {quote(name)}",
                    "give each its own name",
                )
            seen.add(name)
