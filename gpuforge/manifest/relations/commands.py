"""Keys that belong to one compiler: those of commands, and those of OpenCL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from gpuforge.manifest.problem import Problem, Raw, numbered, object_title, table
from gpuforge.manifest.quoting import quote
from gpuforge.toolchain_names import OWN

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
