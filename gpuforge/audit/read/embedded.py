"""Read the kernel sets and source sets that gpuforge itself puts into wheels (`<import>/_gpuforge/...`)."""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gpuforge.audit.embedded import (
    Index,
    KernelSet,
    KernelsWheels,
    ListedFile,
    Recipe,
    SourceSet,
    Unusable,
)
from gpuforge.cuda.kernels import KernelImage
from gpuforge.runtime import document, layout
from gpuforge.runtime.document import Damaged, parse
from gpuforge.runtime.values import Image
from gpuforge.wheel.archive import Archive, Member

_INDEX = rf"(.*{layout.kernels(layout.HOME)}/[^/]+)/{re.escape(layout.INDEX)}"
_RECIPE = rf"(.*{layout.sources(layout.HOME)}/[^/]+)/{re.escape(layout.RECIPE)}"
_SCHEMA = 1
# The keys of a recipe for where a compiler may be on a user's machine, and how it is installed.
_ELSEWHERE = {"places", "install"}
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


def kernels_listing(archive: Archive) -> KernelsWheels | Unusable | None:
    """Return a package's list of its kernels wheels (`wheels.json`) as the runtime reads it; None if there is none."""
    return _first(archive, layout.LISTING, _listing)


def kernels_description(archive: Archive) -> KernelsWheels | Unusable | None:
    """Return a kernels wheel's description of itself (`wheel.json`) as the runtime reads it; None if there is none."""
    return _first(archive, layout.WHEEL, _wheel)


def _first(
    archive: Archive, name: str, fit: Callable[[dict[str, Any]], KernelsWheels]
) -> KernelsWheels | Unusable | None:
    member = next((m for m in archive.members if m.name.endswith(f"/{layout.HOME}/{name}")), None)
    return read(archive, member, fit) if member else None


def _index(data: dict[str, Any]) -> Index:
    """Read an index as the runtime does, which loads nothing from an invalid one; raises Damaged."""
    from gpuforge.runtime import libraries, values  # noqa: PLC0415  few wheels have kernel sets

    _check_schema(data)
    files: tuple[ListedFile, ...]
    if data.get("kind") == "library":
        document.text(data, "name")
        demands = libraries.demands_of(data)
        libraries.stands_in_for(data)
        listed = libraries.libraries_of(data).files
        digests = [document.text(entry, "sha256") for entry in document.tables(data, "libraries")]
        files = tuple(
            ListedFile(each.file, digest, tuple(map(_image, each.images)))
            for each, digest in zip(listed, digests, strict=True)
        )
        return _complete(Index("library", files, demands.abi))
    document.text(data, "kind", "module")
    modules = (each for same in values.index_of("", data).modules.values() for each in same)
    files = tuple(ListedFile(each.file, each.sha256, tuple(map(_image, each.images))) for each in modules)
    return _complete(Index("module", files, document.text(data, "abi", "")))


def _complete(index: Index) -> Index:
    if not index.files:
        raise Damaged("'libraries' is empty" if index.kind == "library" else "'modules' is empty")
    if not all(each.sha256 for each in index.files):
        raise Damaged("'sha256' is empty")
    return index


def _image(image: Image) -> KernelImage:
    isa = ".".join(map(str, image.isa)) if image.isa else ""
    target = image.built_for if isinstance(image.built_for, str) else image.built_for.of_image(image.kind)
    return KernelImage.parse(image.kind, target, isa)


def _recipe(data: dict[str, Any]) -> Recipe:
    """Read a recipe as the runtime does; raises Damaged."""
    from gpuforge.runtime import recipe  # noqa: PLC0415  few wheels have sources

    _check_schema(data)
    known = recipe.recipe_of("", data)
    for key, listed in (("sources", known.sources), ("toolchains", known.toolchains)):
        if not listed:
            raise Damaged(f"'{key}' is empty")
    return Recipe(
        files=tuple(ListedFile(*each) for each in known.files.items()),
        toolchains=known.toolchains,
        fallbacks=known.demands.fallbacks,
        cpu=known.cpu,
        abi=known.demands.abi,
        texts=tuple(_all_texts(data)),
    )


def _listing(data: dict[str, Any]) -> KernelsWheels:
    """Read a package's list of its kernels wheels; raises Damaged."""
    listed = document.tables(data, "wheels")
    for each in listed:
        document.file_name(each, "folder")
        document.text(each, "extra")
    document.text(data, "distribution")
    names = frozenset(document.text(each, "distribution") for each in listed)
    return _wheel(data)._replace(distributions=names)


def _wheel(data: dict[str, Any]) -> KernelsWheels:
    """Read a kernels wheel's description of itself; raises Damaged."""
    from gpuforge.runtime import wheels  # noqa: PLC0415  few wheels have kernels wheels

    _check_schema(data)
    sets = wheels.sets_of(data)
    return KernelsWheels(document.text(data, "version"), {name: each.abi for name, each in sets.items()})


def _check_schema(data: dict[str, Any]) -> None:
    if document.whole(data, "schema") != _SCHEMA:
        raise Damaged(f"its schema is not {_SCHEMA}")


def _all_texts(data: dict[str, Any]) -> Iterator[str]:
    left: list[Any] = [data]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            left += [item for key, item in reversed(value.items()) if key not in _ELSEWHERE]
        elif isinstance(value, list):
            left += reversed(value)


def _absolute(archive: Archive, folder: str) -> dict[str, tuple[str, ...]]:
    """Return the absolute paths that sources include, or have in a #line directive."""
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


_LARGEST = 1 << 20  # bytes; gpuforge writes some hundred per module
_PARSED = 8  # characters of the budget for each of the JSON, as parsed lists are larger than their text

_Value = TypeVar("_Value")


def read(archive: Archive, member: Member, fit: Callable[[dict[str, Any]], _Value]) -> _Value | Unusable:
    """Return the value that `fit` makes of a document, or why it is unusable.

    `fit` raises Damaged for a document that does not fit its schema. Raises MalformedError for a broken archive.
    """
    if member.size > _LARGEST:
        return Unusable("unreadable", f"it is {member.size} bytes long")
    archive.budget.spend("names", _PARSED * member.size)
    try:
        found = parse(archive.data(member))
    except Damaged as damaged:
        return Unusable("unreadable", str(damaged))
    try:
        return fit(found)
    except Damaged as damaged:
        return Unusable("schema", str(damaged))
