"""Conditions on `[[objects]]` and their toolchains, checked on the parsed TOML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from gpuforge.manifest.model import ROLE_KEYS, RoleKeys
from gpuforge.manifest.problem import (
    KeyPath,
    Problem,
    Raw,
    compiler_of,
    numbered,
    object_title,
    quote,
    table,
    text_of,
)
from gpuforge.toolchain_names import OWN, makes

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


_ABI_HINT = 'add, for example, abi = { version = "1", headers = ["mod/mechanisms.h"] }'


_KIND_HINT = 'write kind = "library", or remove the key'


def libraries(data: Raw) -> Iterator[Problem]:
    """Yield libraries without an ABI, and objects that stand in for one that they cannot replace."""
    found = [(index, thing) for index, thing in numbered(data.get("objects")) if _has(thing, "name")]
    by_name = {thing["name"]: (index, thing) for index, thing in found}
    taken: dict[tuple[str, str], str] = {}
    for index, thing in numbered(data.get("objects")):
        if thing.get("role") == "user-compiled":
            yield from _compilers(data, index, thing)
        if thing.get("role") != "fallback":
            continue
        title, target, kind = (
            object_title(thing),
            thing.get("stands-in-for"),
            text_of(thing, "kind") or "module",
        )
        for key in ("abi", "cpu") if kind != "library" else ():
            if key in thing:
                yield Problem(
                    ("objects", index, key),
                    f'{title} has `{key}`, which only kind = "library" takes',
                    _KIND_HINT,
                    at_key=True,
                )
        if kind == "library":
            yield from _levels(("objects", index, "cpu"), title, thing, data)
        if isinstance(target, str):
            path = ("objects", index, "stands-in-for")
            yield from _stand_in(path, title, thing, target, by_name)
            several = kind == "library" and not _of_modules(by_name.get(target, (0, {}))[1])
            if (target, kind) in taken and not several:
                yield Problem(
                    path,
                    f"{title} and {taken[target, kind]} both stand in for {quote(target)}",
                    "only one fallback can be used; remove the key from the other",
                )
            taken.setdefault((target, kind), title)
        elif kind == "library" and "stands-in-for" not in thing and "abi" not in thing:
            yield Problem(
                ("objects", index),
                f"{title} is a library, and has neither `abi` nor `stands-in-for`",
                f"{_ABI_HINT}, or name the object to replace in stands-in-for",
            )


def _levels(path: tuple[str, int, str], title: str, thing: Raw, data: Raw) -> Iterator[Problem]:
    """Yield `cpu` with a compiler of GPU code."""
    compiler = compiler_of(data, text_of(thing, "toolchain"))
    reason = OWN[compiler].refuses_cpu if compiler in OWN else ""
    if "cpu" in thing and reason:
        yield Problem(
            path,
            f"{title} has `cpu`, but {reason}",
            "remove it; a further fallback of the host toolchain, which stands in for this one, can have it",
            at_key=True,
        )


def _of_modules(thing: Raw) -> bool:
    """Return whether an object is a set of modules."""
    usual = "library" if thing.get("role") == "user-compiled" else "module"
    return (text_of(thing, "kind") or usual) == "module"


def _replaceable(thing: Raw, kind: str) -> bool:
    """Return whether a fallback of a kind may replace an object; a library may also replace independent fallbacks."""
    fallback = thing.get("role") == "fallback" and kind == "library" and "stands-in-for" not in thing
    return thing.get("role") == "user-compiled" or fallback


def _compilers(data: Raw, index: int, thing: Raw) -> Iterator[Problem]:
    """Yield toolchains that cannot make a user-compiled object's kind."""
    kind = thing.get("kind", "library")
    names = thing.get("toolchains")
    for number, name in enumerate(names if isinstance(names, list) else []):
        compiler = compiler_of(data, name) if isinstance(name, str) else ""
        path = ("objects", index, "toolchains", number)
        if compiler in OWN and not OWN[compiler].makes:
            able = ", ".join(name for name, own in OWN.items() if kind in own.makes)
            yield Problem(
                path,
                f"{object_title(thing)} is compiled on users' machines, but {compiler} compiles only during builds",
                f'write role = "fallback", or use one of {able}',
            )
        elif kind == "library" and not makes(compiler, kind):
            yield Problem(
                path,
                f"{object_title(thing)} is a library, but {compiler} makes no libraries",
                'write kind = "module", or remove the toolchain',
            )
        elif kind == "module" and not makes(compiler, kind):
            yield Problem(
                path,
                f"{object_title(thing)} is a set of modules, but {compiler} makes libraries",
                'write kind = "library", or remove the toolchain',
            )


def _stand_in(
    path: tuple[str, int, str], title: str, thing: Raw, target: str, by_name: Mapping[str, tuple[int, Raw]]
) -> Iterator[Problem]:
    index, other = by_name.get(target, (0, {}))
    kind, modules = text_of(thing, "kind") or "module", _of_modules(other)
    if other is thing or not _replaceable(other, kind):
        others = {name: each for name, (_, each) in by_name.items() if each is not thing}
        known = [name for name, each in others.items() if _replaceable(each, kind)]
        yield Problem(
            path,
            f"{title} cannot stand in for {quote(target)}, which is not a user-compiled object"
            + (" or another fallback" if kind == "library" else ""),
            f"objects it can replace: {', '.join(known)}" if known else "the manifest has none",
        )
        return
    if kind == "module" and not modules:
        yield Problem(
            path,
            f"{title} is a set of modules, and cannot stand in for {quote(target)}, a library",
            _KIND_HINT,
        )
        return
    if "abi" in thing:
        yield Problem(
            (*path[:2], "abi"),
            f"{title} has an `abi`, but takes the ABI of {quote(target)}, which it stands in for",
            "remove it",
            at_key=True,
        )
    if "abi" not in other and not modules:
        yield Problem(
            ("objects", index),
            f"{object_title(other)} needs `abi`, because {title} stands in for it",
            _ABI_HINT,
        )


def _has(thing: Raw, key: str) -> bool:
    return isinstance(thing.get(key), str)


_OWNERS = {key: name for name, own in OWN.items() for key in own.keys}


def commands(data: Raw) -> Iterator[Problem]:
    """Yield commands without a command line, and keys of one compiler on others."""
    for name, toolchain in table(data, "toolchains").items():
        if not isinstance(toolchain, Mapping) or not isinstance(toolchain.get("compiler"), str):
            continue
        title = f"[toolchains.{name}]"
        if toolchain["compiler"] == _OWNERS["command"] and not toolchain.get("command"):
            yield Problem(
                ("toolchains", name),
                f"{title} needs `command`, because its compiler is {quote(_OWNERS['command'])}",
                'write the command line, e.g. command = ["make", "-f", "{include}/Makefile", "OUTPUT={output}"]',
            )
        for key, owner in _OWNERS.items():
            if key in toolchain and toolchain["compiler"] != owner:
                yield Problem(
                    ("toolchains", name, key),
                    f"{title} has `{key}`, which only compiler = {quote(owner)} takes",
                    "remove it, or change the compiler",
                    at_key=True,
                )


def without_id(data: Raw) -> Iterator[Problem]:
    """Yield commands that make a library with an ABI but do not use the file with its id."""
    declared = table(data, "toolchains")
    found = [thing for _, thing in numbered(data.get("objects"))]
    bound = {thing["name"] for thing in found if "abi" in thing and _is_text(thing.get("name"))}
    names: dict[str, str] = {}
    for thing in found:
        target = thing.get("stands-in-for")
        if "abi" not in thing and not (_is_text(target) and target in bound):
            continue
        several = thing.get("toolchains")
        for name in (thing.get("toolchain"), *(several if isinstance(several, list) else ())):
            if isinstance(name, str):
                names.setdefault(name, object_title(thing))
    for name, title in names.items():
        toolchain = declared.get(name)
        words = toolchain.get("command") if isinstance(toolchain, Mapping) else None
        if isinstance(words, list) and words and not any("{abi}" in word for word in words if _is_text(word)):
            yield Problem(
                ("toolchains", name, "command"),
                f"[toolchains.{name}] command needs {{abi}}, because {title} has an ABI",
                "the library must contain the C file with the ABI id: add {abi} where the command takes an object or "
                "a source",
            )


def _is_text(word: object) -> TypeGuard[str]:
    return isinstance(word, str)
