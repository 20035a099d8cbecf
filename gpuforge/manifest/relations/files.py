"""Files and folders that the manifest names, and NUL characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from gpuforge.manifest import constraints
from gpuforge.manifest.positions import KeyPath
from gpuforge.manifest.problem import Problem, Raw, table
from gpuforge.manifest.quoting import quote
from gpuforge.release import Release

_MOST = 10  # wrong lines of one file


def _constraints(folder: Path, file: str) -> Iterator[Problem]:
    """Yield the problems of the file of constraints, at most a few, because messages quote its lines."""
    keys, name = ("build", "constraints"), quote(file)
    try:
        text = constraints.text(folder, file)
    except (OSError, ValueError) as error:  # also a folder, a name too long, a NUL character
        absent = isinstance(error, FileNotFoundError)
        reason = getattr(error, "strerror", None) or str(error)
        yield Problem(
            keys,
            f"[build] constraints: no file {name} beside the manifest"
            if absent
            else f"[build] constraints: the file {name} cannot be read: {reason}",
            "create it, with a line like cmake==3.31.6 for each requirement, or remove the key",
        )
        return
    wrong = (found for found in constraints.read(text) if isinstance(found, constraints.Wrong))
    for found in islice(wrong, _MOST):
        yield Problem(keys, f"[build] constraints: line {found.line} of {name}: {found.what}", found.hint)


def files(data: Raw, folder: Path) -> Iterator[Problem]:
    """Yield files and folders that are missing or cannot be read."""
    build = table(data, "build")
    named = build.get("constraints")
    if isinstance(named, str) and named:
        yield from _constraints(folder, named)
    overlays = build.get("overlay")
    for index, name in enumerate(overlays if isinstance(overlays, list) else []):
        if isinstance(name, str) and name and not _is_folder(folder, name):
            yield Problem(
                ("build", "overlay", index),
                f"[build] overlay: no folder {quote(name)} beside the manifest",
                "create the folder, or remove it from the list",
            )
    yield from _same_sdists(overlays)
    source = table(data, "package").get("source")
    path = source.get("path") if isinstance(source, Mapping) and set(source) == {"path"} else None
    if isinstance(path, str) and path.strip() and not (_is_folder(folder, path) or _is_sdist(folder, path)):
        yield Problem(
            ("package", "source", "path"),
            f"[package.source] path: no folder and no sdist {quote(path)}",
            "the path is relative to the manifest's folder; an sdist is a file NAME-VERSION.tar.gz or .zip",
        )


def _same_sdists(overlays: object) -> Iterator[Problem]:
    """Yield sdists of `[build] overlay` that would be unpacked into the same folder."""
    seen = set()
    for index, item in enumerate(overlays if isinstance(overlays, list) else []):
        try:
            name = canonicalize_name(Release.of_pin(str(item["pypi"])).project)
        except (TypeError, LookupError, ValueError):
            continue  # a folder, or a value that is reported as wrong
        if name in seen:
            yield Problem(
                ("build", "overlay", index, "pypi"),
                f"[build] overlay: {quote(name)} is listed twice, and both would be unpacked into {{overlay}}/{name}",
                "remove one of them",
            )
        seen.add(name)


def _is_folder(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_dir()
    except (OSError, ValueError):  # a name too long, a folder that may not be read, a NUL character
        return False


def _is_sdist(folder: Path, name: str) -> bool:
    try:
        return name.endswith((".tar.gz", ".zip")) and (folder / name).is_file()
    except (OSError, ValueError):
        return False


def nul_characters(data: Raw) -> Iterator[Problem]:
    """Yield text with a NUL character: no program can receive it."""
    pending: list[tuple[KeyPath, Any]] = [((), data)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(((*path, key), part) for key, part in value.items())
        elif isinstance(value, list):
            pending.extend(((*path, index), part) for index, part in enumerate(value))
        elif isinstance(value, str) and "\0" in value:
            yield Problem(
                path, f"{quote(value)} contains a NUL character", "remove it; no program can receive one"
            )
