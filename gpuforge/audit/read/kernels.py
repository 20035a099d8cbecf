"""Read the kernel sets and source sets that gpuforge itself puts into wheels (`<import>/_gpuforge/...`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpuforge.audit.kernels import (
    Index,
    KernelSet,
    KernelsWheels,
    ListedFile,
    Recipe,
    SourceSet,
    Unusable,
    UserToolchain,
)
from gpuforge.audit.read.documents import Document, Unfit, listed, read, tables, text, texts
from gpuforge.cuda.kernel_image import KernelImage
from gpuforge.embedded import layout
from gpuforge.wheel.archive import Archive, Member

_INDEX = rf"(.*{layout.kernels(layout.HOME)}/[^/]+)/{re.escape(layout.INDEX)}"
_RECIPE = rf"(.*{layout.sources(layout.HOME)}/[^/]+)/{re.escape(layout.RECIPE)}"
_SCHEMA = 1
# What of a recipe says where a compiler may be found on a user's machine, and how it is installed.
_ELSEWHERE = {"places", "install", "path"}
_INCLUDED = rb"(?m)^[ \t]*#[ \t]*(?:include|line[ \t]+\d+|\d+)[ \t]*[<\"](/[^>\"\n]+)"
_LARGEST_SOURCE = 16 << 20  # bytes; larger files are data


def kernel_sets(archive: Archive) -> Iterator[KernelSet]:
    """Yield every kernel set, with the sha256 of each of its files. Raises MalformedError for a broken archive."""
    for member, folder in _documents(archive, _INDEX):
        yield KernelSet(folder, read(archive, member, _index), _digests(archive, folder, member))


def source_sets(archive: Archive) -> Iterator[SourceSet]:
    """Yield every set of user-compiled sources. Raises MalformedError for a broken archive."""
    for member, folder in _documents(archive, _RECIPE):
        recipe = read(archive, member, _recipe)
        yield SourceSet(folder, recipe, _digests(archive, folder, member), _absolute(archive, folder))


def kernels_wheels(archive: Archive, name: str) -> KernelsWheels | Unusable | None:
    """Return what the runtime reads of kernels wheels, `wheels.json` or `wheel.json`; None where there is none."""
    for member in archive.members:
        if member.name.endswith(f"/{layout.HOME}/{name}"):
            return read(archive, member, _wheels)
    return None


def _index(document: Document) -> Index:
    library = document.get("kind") == "library"
    key = "libraries" if library else "modules"
    try:
        files = tuple(_file(entry)._replace(images=_images(entry)) for entry in listed(document, key))
        abi = text(document, "abi", "")
    except Unfit:
        raise Unfit(key) from None
    if document.get("schema") != _SCHEMA or not files:
        raise Unfit(key)
    return Index("library" if library else "module", files, abi)


def _recipe(document: Document) -> Recipe:
    offered = tables(document, "toolchains")
    if document.get("schema") != _SCHEMA or not document.get("sources") or not offered:
        raise Unfit
    files = [*map(_file, listed(document, "sources")), *map(_file, listed(document, "includes"))]
    cpu = text(document, "cpu", "")
    return Recipe(
        files=tuple(files),
        toolchains=tuple(UserToolchain(text(each, "name"), texts(each, "runtimes")) for each in offered),
        stand_ins=(*texts(document, "fallbacks"), *([cpu] if cpu else [])),
        abi=text(document, "abi", ""),
        texts=tuple(_all_texts(document)),
    )


def _wheels(document: Document) -> KernelsWheels:
    return KernelsWheels(
        version=text(document, "version"),
        sets={text(each, "name"): text(each, "abi") for each in tables(document, "sets")},
        distributions=frozenset(text(each, "distribution") for each in tables(document, "wheels")),
    )


def _file(entry: object) -> ListedFile:
    """Return an entry of an index or a recipe; one that is not an object names no file."""
    values = entry if isinstance(entry, dict) else {}
    file, sha256 = values.get("file"), values.get("sha256")
    return ListedFile(file if isinstance(file, str) else "", sha256 if isinstance(sha256, str) else "")


def _images(entry: object) -> tuple[KernelImage, ...]:
    images = tables(entry, "images") if isinstance(entry, dict) else ()
    try:
        return tuple(KernelImage.parse(text(each, "kind"), text(each, "arch")) for each in images)
    except ValueError:
        raise Unfit from None


def _all_texts(document: Document) -> Iterator[str]:
    left: list[Any] = [document]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left += [item for key, item in reversed(value.items()) if key not in _ELSEWHERE]
        elif isinstance(value, list):
            left += reversed(value)


def _absolute(archive: Archive, folder: str) -> dict[str, tuple[str, ...]]:
    """Return what sources include by an absolute path, or name so in a #line directive."""
    found: dict[str, tuple[str, ...]] = {}
    for member in archive.members:
        if member.name.startswith(f"{folder}/") and member.size <= _LARGEST_SOURCE:
            paths = re.findall(_INCLUDED, archive.data(member))
            if paths:
                found[member.name.removeprefix(f"{folder}/")] = tuple(
                    p.decode("utf-8", "replace") for p in paths
                )
    return found


def _documents(archive: Archive, pattern: str) -> Iterator[tuple[Member, str]]:
    for member in archive.members:
        if f"{layout.HOME}/" in member.name and (match := re.fullmatch(pattern, member.name)):
            yield member, match[1]


def _digests(archive: Archive, folder: str, index: Member) -> dict[str, str]:
    archive.budget.spend("edges", len(archive.members))
    return {
        m.name.removeprefix(f"{folder}/"): _sha256(archive, m)
        for m in archive.members
        if m.name.startswith(f"{folder}/") and m.name != index.name
    }


def _sha256(archive: Archive, member: Member) -> str:
    import hashlib  # noqa: PLC0415  few wheels have kernel sets

    digest = hashlib.sha256()
    for chunk in archive.chunks(member):
        digest.update(chunk)
    return digest.hexdigest()
