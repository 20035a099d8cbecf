"""What one key of the manifest demands of another, checked on raw data so that every error comes at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gpuforge.manifest import braces, constraints, forms, kernels_wheels
from gpuforge.manifest import relations_libraries as libraries
from gpuforge.manifest.forms import quote
from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Problem, Raw, numbered, object_title, table, text_of


@dataclass(frozen=True, slots=True)
class RoleKeys:
    """Which keys an object of one role must and may have, besides `name` and `role`."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


ROLE_KEYS: Mapping[str, RoleKeys] = {
    "host-only": RoleKeys(("files",), ("needs",)),
    "user-compiled": RoleKeys(
        ("sources", "toolchains"), ("headers", "kind", "abi", "flags", "in-host-build")
    ),
    "fallback": RoleKeys(
        ("sources", "toolchain"), ("headers", "kind", "cpu", "abi", "stands-in-for", "flags", "in-host-build")
    ),
}

OLDEST_PYTHON = "3.10"
"""The oldest Python that wheels are built and tested with: pip fetches for no older one.
Source: Requires-Python of https://pypi.org/project/pip/26.3/"""


def problems(data: Raw, folder: Path | None) -> Iterator[Problem]:
    """Yield every broken relation in the parsed TOML; values of a wrong type are left to the model.

    In `folder` are the files and folders that the manifest names; None: nobody asks for them.
    """
    for check in (
        *(_python, _import_name, _host_build, _unknown_placeholders, _toolkits, _architectures),
        *(_linkage, _objects, _object_names, libraries.commands, libraries.without_id, libraries.objects),
        kernels_wheels.problems,
    ):
        yield from check(data)
    if folder is not None:
        yield from _files(data, folder)
    yield from _nul_characters(data)


def _python(data: Raw) -> Iterator[Problem]:
    package = table(data, "package")
    python, abi = package.get("python", []), package.get("abi")
    if "package" not in data or not isinstance(package, Mapping) or not isinstance(python, list):
        return
    for index, version in enumerate(python if abi != "abi3" else []):
        if isinstance(version, str) and re.fullmatch(r"3\.[0-9]", version):
            yield Problem(
                ("package", "python", index),
                f"[package] python: {version} is older than {OLDEST_PYTHON}, the oldest that gpuforge builds for",
                'remove it; abi = "abi3" can promise an older one',
            )
    if abi is None and not python:
        yield Problem(
            ("package", "python") if "python" in package else ("package",),
            "[package] does not say for which Python versions wheels are built",
            'write, for example, python = ["3.11", "3.12"], or set `abi` when one wheel serves them all',
        )
    if abi == "abi3" and len(python) != 1:
        yield Problem(
            ("package", "python") if python else ("package", "abi"),
            f'[package] abi = "abi3" goes with exactly one Python version, but `python` has {len(python)}',
            "keep the lowest version that the wheel supports: the one wheel serves it and all later ones",
        )
    if abi == "none" and len(python) > 1:
        yield Problem(
            ("package", "python"),
            f'[package] abi = "none" goes with one Python version at most, but `python` has {len(python)}',
            "one wheel serves them all; keep the version that builds it, or leave `python` out",
        )


def _host_build(data: Raw) -> Iterator[Problem]:
    """Yield what of a build without CUDA names its toolkit."""
    build = table(data, "build")
    if build.get("cuda") is not False:
        return
    for key in _FILLED:
        if any("toolkit" in braces.names(text) for _, text in _texts(build.get(key))):
            yield Problem(
                ("build", key),
                f"[build] {key} names {{toolkit}}, but with cuda = false the build is given no CUDA toolkit",
                "leave `cuda = false` out if the host build needs one",
            )


def _unknown_placeholders(data: Raw) -> Iterator[Problem]:
    known = [(("build", key), braces.OF_BUILD) for key in _FILLED]
    for path, names in [*known, (("test", "command"), braces.OF_TEST)]:
        title, key = path
        for inside, text in _texts(table(data, title).get(key)):
            for name in dict.fromkeys(braces.names(text)):
                if name not in names:
                    near = get_close_matches(name.lower(), names, n=1)
                    choices = f"did you mean {{{near[0]}}}?" if near else f"known here: {_braces(names)}"
                    yield Problem(
                        (*path, *inside),
                        f"[{title}] {key}: {{{name}}} stands for nothing",
                        f"{choices} For the braces themselves write {{{{{name}}}}}",
                    )


def _braces(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names) + "."


def _texts(value: object) -> Iterator[tuple[KeyPath, str]]:
    """Yield every string in a value of the parsed TOML, each with the path that leads to it."""
    if isinstance(value, str):
        yield (), value
    elif isinstance(value, Mapping | list):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in parts:
            for path, text in _texts(part):
                yield (key, *path), text


def _import_name(data: Raw) -> Iterator[Problem]:
    package = table(data, "package")
    name = package.get("name")
    if "import" in package or not isinstance(name, str):
        return
    default = name.replace("-", "_")
    if re.match(r"[A-Za-z0-9]", name) and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", default):
        yield Problem(
            ("package", "name"),
            f"[package] needs `import`: {quote(default)}, which follows from the name, cannot be imported",
            'say which import package the kernels go into, e.g. import = "example"',
        )


def _toolkits(data: Raw) -> Iterator[Problem]:
    cuda = table(data, "cuda")
    if "cuda" not in data or not isinstance(data["cuda"], Mapping):
        return
    versions = {key: cuda[key] for key in cuda if re.search(forms.VERSION_KEY, key)}
    if not versions:
        yield Problem(
            ("cuda",),
            "[cuda] has no toolkit to build with",
            'add a table for one, e.g. [cuda.13] with toolkit = "13.0" and archs = ["80", "90"]',
        )
    owners: dict[str, str] = {}
    for key, written in versions.items():
        toolkit = written.get("toolkit", key) if isinstance(written, Mapping) else None
        if not isinstance(toolkit, str) or not re.fullmatch(r"[0-9]+\.[0-9]+", toolkit):
            continue
        at: KeyPath = ("cuda", key, "toolkit") if "toolkit" in written else ("cuda", key)
        if toolkit != key and toolkit.partition(".")[0] != key:
            yield Problem(
                at,
                f"{_version_table(key)} cannot have the toolkit {quote(toolkit)}",
                f"move it to {_version_table(toolkit.partition('.')[0])}, or give a toolkit of CUDA {key}",
            )
        elif toolkit in owners:
            yield Problem(
                at,
                f"{_version_table(key)} has the same toolkit as {_version_table(owners[toolkit])}: {toolkit}",
                "keep one of the two tables",
            )
        owners.setdefault(toolkit, key)


def _architectures(data: Raw) -> Iterator[Problem]:
    """Yield what of a manifest has GPU code, where a toolkit's `archs = []` says that there is none."""
    cuda = table(data, "cuda")
    for key, version in cuda.items():
        if not (
            re.search(forms.VERSION_KEY, key) and isinstance(version, Mapping) and version.get("archs") == []
        ):
            continue
        if "ptx" in version:
            yield Problem(
                ("cuda", key, "ptx"),
                f"{_version_table(key)} has `ptx`, and archs = [] says that the package has no GPU code",
                "list the architectures to compile for, or remove `ptx`",
                at_key=True,
            )
        for _, thing in numbered(data.get("objects")):
            if text_of(thing, "role") in {"fallback", "user-compiled"}:
                yield Problem(
                    ("cuda", key, "archs"),
                    f"{_version_table(key)} has archs = [], no GPU code, and {object_title(thing)} is GPU code",
                    'list the architectures to compile for, e.g. archs = ["80", "90"]',
                )


def _linkage(data: Raw) -> Iterator[Problem]:
    cuda = table(data, "cuda")
    linkage = cuda.get("linkage", "pip")
    if "requires" in cuda and isinstance(linkage, str) and linkage in {"bundle", "system", "static"}:
        yield Problem(
            ("cuda", "requires"),
            f'[cuda] `requires` goes with linkage = "pip", and not with {quote(linkage)}, which declares no packages',
            'remove it, or choose linkage = "pip"',
            at_key=True,
        )


def _objects(data: Raw) -> Iterator[Problem]:
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
                        f"declared are: {', '.join(declared)}"
                        if declared
                        else f"add a table [toolchains.{name}] with compiler = {likely}",
                    )


def _role_keys(path: KeyPath, title: str, thing: Raw, keys: RoleKeys) -> Iterator[Problem]:
    role = thing["role"]
    known = {key for role_keys in ROLE_KEYS.values() for key in role_keys.required + role_keys.optional}
    for key in keys.required:
        if key not in thing:
            yield Problem(
                path, f"{title} has no `{key}`, which its role {quote(role)} needs", _ROLE_HINTS[key]
            )
        elif thing[key] == []:
            yield Problem((*path, key), f"{title}: `{key}` must not be empty", _ROLE_HINTS[key])
    for key in thing:
        if key in known and key not in keys.required + keys.optional:
            owners = [
                quote(owner) for owner, owned in ROLE_KEYS.items() if key in owned.required + owned.optional
            ]
            yield Problem(
                (*path, key),
                f"{title} has `{key}`, which does not go with its role {quote(role)}",
                f"`{key}` goes with {' and '.join(owners)}; "
                f"{quote(role)} takes {', '.join(f'`{k}`' for k in keys.required + keys.optional)}",
                at_key=True,
            )


_FILLED = ("config-settings", "env", "before")  # the keys of [build] whose strings may hold placeholders
_ROLE_HINTS: Mapping[str, str] = {
    "files": 'patterns of files in the built wheel, e.g. files = ["**/*.so"]',
    "sources": 'patterns of source files beside the manifest, e.g. sources = ["kernels/*.cu"]',
    "toolchain": 'the name of one of the [toolchains], e.g. toolchain = "device"',
    "toolchains": 'names of [toolchains] in the order to try them in, e.g. toolchains = ["acc", "host"]',
}


def _references(path: KeyPath, thing: Raw) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(name := thing.get("toolchain"), str):
        yield (*path, "toolchain"), name
    names = thing.get("toolchains")
    for index, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str):
            yield (*path, "toolchains", index), name


def _object_names(data: Raw) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, thing in numbered(data.get("objects")):
        name = thing.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Problem(
                    ("objects", index, "name"),
                    f"two objects have the name {quote(name)}",
                    "give each its own",
                )
            seen.add(name)


def _constraints(file: Path, name: str) -> Iterator[Problem]:
    """Yield what is wrong with the file of constraints: it decides on the environment alone, so it has all of them."""
    keys = ("build", "constraints")
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:  # also a folder, a name too long, a NUL character
        absent = isinstance(error, FileNotFoundError)
        reason = getattr(error, "strerror", None) or str(error)
        yield Problem(
            keys,
            f"[build] constraints: there is no file {name} beside the manifest"
            if absent
            else f"[build] constraints: the file {name} cannot be read: {reason}",
            "write it, with a line like cmake==3.31.6 for each requirement, or leave the key out",
        )
        return
    for found in constraints.read(text):
        if isinstance(found, constraints.Wrong):
            yield Problem(keys, f"[build] constraints: line {found.line} of {name}: {found.what}", found.hint)


def _files(data: Raw, folder: Path) -> Iterator[Problem]:
    build = table(data, "build")
    named = build.get("constraints")
    if isinstance(named, str) and named:
        yield from _constraints(folder / named, quote(named))
    overlays = build.get("overlay")
    for index, name in enumerate(overlays if isinstance(overlays, list) else []):
        if isinstance(name, str) and name and not _is_folder(folder, name):
            yield Problem(
                ("build", "overlay", index),
                f"[build] overlay: there is no folder {quote(name)} beside the manifest",
                "make the folder, or remove it from the list",
            )
    source = table(data, "package").get("source")
    path = source.get("path") if isinstance(source, Mapping) and set(source) == {"path"} else None
    if isinstance(path, str) and path.strip() and not _is_folder(folder, path):
        yield Problem(
            ("package", "source", "path"),
            f"[package.source] path: there is no folder {quote(path)}",
            "the path starts from the manifest's folder",
        )


def _nul_characters(data: Raw) -> Iterator[Problem]:
    pending: list[tuple[KeyPath, Any]] = [((), data)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(((*path, key), part) for key, part in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, index), part) for index, part in enumerate(value))
        elif isinstance(value, str) and "\0" in value:
            yield Problem(
                path, f"{quote(value)} holds a NUL character", "no program can be given one; remove it"
            )


def _version_table(key: str) -> str:
    return f'[cuda."{key}"]' if "." in key else f"[cuda.{key}]"


def _is_folder(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_dir()
    except (OSError, ValueError):  # a name too long, a folder that may not be read, a NUL character
        return False
