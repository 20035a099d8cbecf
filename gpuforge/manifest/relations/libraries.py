"""Objects that are shared libraries: ABI, CPU levels, and the object that each stands in for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuforge.manifest.problem import Problem, Raw, compiler_of, numbered, object_title, text_of
from gpuforge.manifest.quoting import quote
from gpuforge.toolchain_names import OWN, makes

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
