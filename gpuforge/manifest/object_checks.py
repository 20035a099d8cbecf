"""Conditions on `[[objects]]` and their toolchains, checked on the parsed TOML."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gpuforge.manifest.model import ROLE_KEYS
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
    texts_of,
)
from gpuforge.toolchain_names import OWN, makes

_ROLE_HINTS: Mapping[str, str] = {
    "files": 'patterns of files in the built wheel, e.g. files = ["**/*.so"]',
    "sources": 'patterns of source files beside the manifest, e.g. sources = ["kernels/*.cu"]',
    "toolchain": 'the name of one of the [toolchains], e.g. toolchain = "device"',
    "toolchains": 'names of [toolchains] in the order to try them in, e.g. toolchains = ["acc", "host"]',
}
_OBJECT_KEYS = frozenset(key for keys in ROLE_KEYS.values() for key in keys.required + keys.optional)
_ABI_HINT = 'add, for example, abi = { version = "1", headers = ["mod/mechanisms.h"] }'
_KIND_HINT = 'write kind = "library", or remove the key'
_OWNERS = {key: name for name, own in OWN.items() for key in own.keys}


@dataclass(frozen=True)
class _Object:
    """An element of `[[objects]]`; values of a wrong type, which the model reports, count as not written."""

    index: int
    data: Raw

    @cached_property
    def title(self) -> str:
        return object_title(self.data)

    @cached_property
    def role(self) -> str:
        return text_of(self.data, "role")

    @cached_property
    def kind(self) -> str:
        """What the sources become, "module" or "library", as a program counts; the default depends on the role."""
        found = text_of(self.data, "kind") or ("library" if self.role == "user-compiled" else "module")
        return "library" if found == "program" else found

    @cached_property
    def is_program(self) -> bool:
        return text_of(self.data, "kind") == "program"

    @property
    def what(self) -> str:
        return "a program" if self.is_program else "a library"

    @cached_property
    def target(self) -> str | None:
        """The name of the object that it stands in for."""
        name = self.data.get("stands-in-for")
        return name if isinstance(name, str) else None

    @cached_property
    def toolchains(self) -> list[tuple[KeyPath, str]]:
        """The names of its toolchains, each with its place in the element."""
        one = [(("toolchain",), name)] if (name := text_of(self.data, "toolchain")) else []
        return [*one, *((("toolchains", n), name) for n, name in texts_of(self.data.get("toolchains")))]

    def replaces(self, kind: str) -> bool:
        """Return whether a fallback of a kind may stand in for it; a library may also do so for other fallbacks."""
        independent = self.role == "fallback" and kind == "library" and "stands-in-for" not in self.data
        return self.role == "user-compiled" or independent

    def problem(self, message: str, hint: str, *at: str | int, at_key: bool = False) -> Problem:
        return Problem(("objects", self.index, *at), message, hint, at_key)


def object_problems(data: Raw) -> Iterator[Problem]:
    """Yield every condition that the objects and their toolchains break."""
    objects = [_Object(index, thing) for index, thing in numbered(data.get("objects"))]
    by_name: dict[str, _Object] = {}
    for item in objects:
        yield from _role_keys(item)
        yield from _undeclared(item, data.get("toolchains", {}))
        if item.role == "user-compiled":
            yield from _compilers(data, item)
        if (name := text_of(item.data, "name")) in by_name:
            yield item.problem(f"two objects have the name {quote(name)}", "give each its own name", "name")
        elif name:
            by_name[name] = item
    yield from _fallbacks(data, [item for item in objects if item.role == "fallback"], by_name)
    yield from _commands(data)
    yield from _commands_without_id(data, objects)


def _role_keys(item: _Object) -> Iterator[Problem]:
    """Yield keys that an object's role needs or does not have."""
    if item.role not in ROLE_KEYS:
        return
    role, required = quote(item.role), ROLE_KEYS[item.role].required
    taken = required + ROLE_KEYS[item.role].optional
    for key in required:
        if key not in item.data:
            yield item.problem(f"{item.title} needs `{key}`, because its role is {role}", _ROLE_HINTS[key])
        elif item.data[key] == []:
            yield item.problem(f"{item.title}: `{key}` must not be empty", _ROLE_HINTS[key], key)
    for key in item.data:
        if key in _OBJECT_KEYS and key not in taken:
            owners = [quote(name) for name, keys in ROLE_KEYS.items() if key in keys.required + keys.optional]
            yield item.problem(
                f"{item.title} has `{key}`, which its role {role} does not take",
                f"`{key}` belongs to {' and '.join(owners)}; {role} takes {', '.join(f'`{k}`' for k in taken)}",
                key,
                at_key=True,
            )


def _undeclared(item: _Object, declared: object) -> Iterator[Problem]:
    """Yield toolchains that are not declared."""
    if not isinstance(declared, Mapping):
        return
    for at, name in item.toolchains:
        if name not in declared:
            likely = quote("nvcc" if item.role == "fallback" else "g++")
            yield item.problem(
                f"{item.title} names the toolchain {quote(name)}, which is not declared",
                f"declared toolchains: {', '.join(declared)}"
                if declared
                else f"add a table [toolchains.{name}] with compiler = {likely}",
                *at,
            )


def _compilers(data: Raw, item: _Object) -> Iterator[Problem]:
    """Yield toolchains that cannot make a user-compiled object's kind."""
    for number, name in texts_of(item.data.get("toolchains")):
        compiler, kind = compiler_of(data, name), item.kind
        if compiler in OWN and not OWN[compiler].makes:
            able = ", ".join(name for name, own in OWN.items() if kind in own.makes)
            what = f"is compiled on users' machines, but {compiler} compiles only during builds"
            hint = f'write role = "fallback", or use one of {able}'
        elif kind == "library" and not makes(compiler, kind):
            what, hint = f"is {item.what}, but {compiler} makes no libraries", 'write kind = "module"'
            hint += ", or remove the toolchain"
        elif kind == "module" and not makes(compiler, kind):
            what, hint = f"is a set of modules, but {compiler} makes libraries", 'write kind = "library"'
            hint += ", or remove the toolchain"
        else:
            continue
        yield item.problem(f"{item.title} {what}", hint, "toolchains", number)


def _fallbacks(data: Raw, fallbacks: list[_Object], by_name: Mapping[str, _Object]) -> Iterator[Problem]:
    """Yield libraries without an ABI, and objects that stand in for one that they cannot replace."""
    taken: dict[tuple[str, str], str] = {}
    for item in fallbacks:
        for key in ("abi", "cpu") if item.kind != "library" else ():
            if key in item.data:
                what = f'{item.title} has `{key}`, which only kind = "library" takes'
                yield item.problem(what, _KIND_HINT, key, at_key=True)
        compiler = compiler_of(data, text_of(item.data, "toolchain"))
        refusal = OWN[compiler].refuses_cpu if compiler in OWN else ""
        if item.kind == "library" and "cpu" in item.data and refusal:
            hint = "remove it; a further fallback of the host toolchain, which stands in for this one, can have it"
            yield item.problem(f"{item.title} has `cpu`, but {refusal}", hint, "cpu", at_key=True)
        if item.target is not None:
            other = by_name.get(item.target)
            yield from _stand_in(item, other, by_name)
            several = item.kind == "library" and other is not None and other.kind == "library"
            if (item.target, item.kind) in taken and not several:
                yield item.problem(
                    f"{item.title} and {taken[item.target, item.kind]} both stand in for {quote(item.target)}",
                    "only one fallback can be used; remove the key from the other",
                    "stands-in-for",
                )
            taken.setdefault((item.target, item.kind), item.title)
        elif item.kind == "library" and not {"stands-in-for", "abi"} & item.data.keys():
            yield item.problem(
                f"{item.title} is {item.what}, and has neither `abi` nor `stands-in-for`",
                f"{_ABI_HINT}, or name the object to replace in stands-in-for",
            )


def _stand_in(item: _Object, other: _Object | None, by_name: Mapping[str, _Object]) -> Iterator[Problem]:
    """Yield what keeps a fallback from replacing an object."""
    target = quote(item.target)
    if other is None or other.index == item.index or not other.replaces(item.kind):
        others = (
            name for name, each in by_name.items() if each.index != item.index and each.replaces(item.kind)
        )
        known = ", ".join(others)
        yield item.problem(
            f"{item.title} cannot stand in for {target}, which is not a user-compiled object"
            + (" or another fallback" if item.kind == "library" else ""),
            f"objects it can replace: {known}" if known else "the manifest has none",
            "stands-in-for",
        )
    elif item.is_program != other.is_program:
        what, one = ("a program", "no") if item.is_program else ("no program", "one")
        hint = 'write kind = "program" in both, or in none of them'
        yield item.problem(f"{item.title} is {what}, and {target} is {one}", hint, "stands-in-for")
    elif item.kind == "module" and other.kind != "module":
        what = f"{item.title} is a set of modules, and cannot stand in for {target}, a library"
        yield item.problem(what, _KIND_HINT, "stands-in-for")
    else:
        if "abi" in item.data:
            what = f"{item.title} has an `abi`, but takes the ABI of {target}, which it stands in for"
            yield item.problem(what, "remove it", "abi", at_key=True)
        if "abi" not in other.data and other.kind != "module":
            yield other.problem(
                f"{other.title} needs `abi`, because {item.title} stands in for it", _ABI_HINT
            )


def _commands(data: Raw) -> Iterator[Problem]:
    """Yield commands without a command line, and keys of one compiler on others."""
    for name in table(data, "toolchains"):
        compiler, toolchain = compiler_of(data, name), table(table(data, "toolchains"), name)
        if not compiler:
            continue
        if compiler == _OWNERS["command"] and not toolchain.get("command"):
            yield Problem(
                ("toolchains", name),
                f"[toolchains.{name}] needs `command`, because its compiler is {quote(compiler)}",
                'write the command line, e.g. command = ["make", "-f", "{include}/Makefile", "OUTPUT={output}"]',
            )
        for key, owner in _OWNERS.items():
            if key in toolchain and compiler != owner:
                yield Problem(
                    ("toolchains", name, key),
                    f"[toolchains.{name}] has `{key}`, which only compiler = {quote(owner)} takes",
                    "remove it, or change the compiler",
                    at_key=True,
                )


def _commands_without_id(data: Raw, objects: list[_Object]) -> Iterator[Problem]:
    """Yield commands that make a library with an ABI but do not use the file with its id."""
    bound = {text_of(item.data, "name") for item in objects if "abi" in item.data} - {""}
    users: dict[str, str] = {}
    for item in objects:
        for _, name in item.toolchains if "abi" in item.data or item.target in bound else ():
            users.setdefault(name, item.title)
    for name, title in users.items():
        words = table(table(data, "toolchains"), name).get("command")
        if isinstance(words, list) and words and not any("{abi}" in word for _, word in texts_of(words)):
            yield Problem(
                ("toolchains", name, "command"),
                f"[toolchains.{name}] command needs {{abi}}, because {title} has an ABI",
                "the library must contain the C file with the ABI id: add {abi} where the command takes an object or "
                "a source",
            )
