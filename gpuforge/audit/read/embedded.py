"""Read the kernel sets and source sets that gpuforge itself puts into wheels (`<import>/_gpuforge/...`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, TypeVar

from gpuforge.audit.embedded import (
    Index,
    KernelSet,
    KernelsWheels,
    ListedFile,
    Recipe,
    SourceSet,
    Unusable,
    UserToolchain,
)
from gpuforge.cuda.kernels import KernelImage
from gpuforge.runtime import document, layout
from gpuforge.runtime.document import Damaged, parse
from gpuforge.runtime.image_kind import kind_of
from gpuforge.wheel.archive import Archive, Member

_INDEX = rf"(.*{layout.kernels(layout.HOME)}/[^/]+)/{re.escape(layout.INDEX)}"
_RECIPE = rf"(.*{layout.sources(layout.HOME)}/[^/]+)/{re.escape(layout.RECIPE)}"
_SCHEMA = 1
_OPERATORS = {">=", "<=", ">", "<", "==", "!=", "==*", "!=*"}  # of a recipe's version ranges
_LONGEST_ARCH = 16  # characters
_RELEASE = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.|\Z)"
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
    """Read an index as strictly as the runtime, which loads nothing from an invalid one; raises Damaged."""
    _check_schema(data)
    document.text(data, "name")
    toolkit, toolchain = document.text(data, "toolkit"), document.table(data, "toolchain")
    for key in ("family", "version"):
        document.text(toolchain, key)
    kind: Literal["module", "library"] = "library" if data.get("kind") == "library" else "module"
    if kind == "library":
        _check_demands(data)
        document.text(data, "stands-in-for", "")
    else:
        document.text(data, "kind", kind)
        document.file_name(data, "cpu", "")
        document.text(data, "install", "")
    key = "libraries" if kind == "library" else "modules"
    files = tuple(_compiled(entry, kind, toolkit) for entry in document.tables(data, key))
    if not files:
        raise document.Damaged(f"'{key}' is empty")
    return Index(kind, files, document.text(data, "abi", ""))


def _compiled(entry: dict[str, Any], kind: str, toolkit: str) -> ListedFile:
    """Read an entry of an index: a module or a library."""
    images = tuple(_image(each, toolkit) for each in document.tables(entry, "images"))
    if kind == "library":
        document.whole(entry, "size")
        if not images:
            raise document.Damaged("'images' is empty")
    else:
        document.text(entry, "name")
        document.text(entry, "source")
        for image in images:
            if not kind_of(image.kind).of_module:
                raise document.Damaged(f"'{image.kind}' is not the kind of an image")
        for kernel in document.tables(entry, "kernels"):
            _check_kernel(kernel)
    sha256 = document.text(entry, "sha256")
    if not sha256:
        raise document.Damaged("'sha256' is empty")
    return ListedFile(document.file_name(entry, "file"), sha256, images)


def _check_kernel(entry: dict[str, Any]) -> None:
    for key in ("symbol", "name"):
        document.text(entry, key)
    for parameter in document.tables(entry, "parameters"):
        document.text(parameter, "type")
        document.whole(parameter, "size")


def _image(entry: dict[str, Any], toolkit: str) -> KernelImage:
    name, arch = document.text(entry, "kind"), document.text(entry, "arch")
    kind = kind_of(name)
    isa = document.text(entry, "isa") if kind.has_ptx else ""
    versions = [isa] if kind.has_ptx else []
    if kind.of_toolkit and (toolkit or not kind.has_ptx):
        versions.append(toolkit)
    for version in versions:
        if not re.match(_RELEASE, version):
            raise document.Damaged(f"'{version}' is not a version like 13.0")
    if kind.built_for == "GPU" and len(arch) > _LONGEST_ARCH:
        raise document.Damaged(f"'{arch}' is not a GPU architecture")
    try:
        return KernelImage.parse(name, arch if kind.built_for else "", isa)
    except ValueError:
        raise document.Damaged(f"'{arch}' is not a GPU architecture") from None


def _recipe(data: dict[str, Any]) -> Recipe:
    """Read a recipe; raises Damaged."""
    _check_schema(data)
    document.text(data, "name")
    _check_demands(data)
    sources, includes = (
        [_source(entry) for entry in document.tables(data, key)] for key in ("sources", "includes")
    )
    offered = document.tables(data, "toolchains")
    for key, listed in (("sources", sources), ("toolchains", offered)):
        if not listed:
            raise document.Damaged(f"'{key}' is empty")
    cpu = ""
    if document.text(data, "kind") == "module":
        document.text(data, "abi")
        cpu = document.file_name(data, "cpu", "")
        names = {source.file for source in sources}
        for name in (name for each in offered for name in document.texts(each, "sources")):
            if name not in names:
                raise document.Damaged(f"'{name}' is not among its sources")
    return Recipe(
        files=(*sources, *includes),
        toolchains=tuple(map(_toolchain, offered)),
        stand_ins=(*document.file_names(data, "fallbacks"), *([cpu] if cpu else [])),
        abi=document.text(data, "abi", ""),
        texts=tuple(_all_texts(data)),
    )


def _toolchain(entry: dict[str, Any]) -> UserToolchain:
    for key in ("family", "version", "programs", "answers", "product", "offload", "makes"):
        document.text(entry, key)
    for key in ("places", "argv", "sources"):
        document.texts(entry, key)
    if not entry["argv"] and (entry["programs"] or entry["makes"] == "library"):  # else called as a library
        raise document.Damaged("'argv' is empty")
    for key in ("devices", "extensions"):  # the first wheels of this schema do not have them
        if key in entry:
            document.texts(entry, key)
    for key in ("by_command", "of_toolkit"):
        document.flag(entry, key, False)
    install = document.table(entry, "install")
    for key in install:
        document.text(install, key)
    _check_bounds(entry)
    return UserToolchain(document.text(entry, "name"), document.texts(entry, "runtimes"))


def _check_bounds(entry: dict[str, Any]) -> None:
    with suppress(KeyError, OverflowError, TypeError, ValueError):
        bounds = [(str(operator), tuple(map(int, numbers))) for operator, numbers in entry["accepts"]]
        if _OPERATORS.issuperset(operator for operator, _ in bounds):
            return
    raise document.Damaged("'accepts' is not a list of bounds")


def _source(entry: dict[str, Any]) -> ListedFile:
    name = document.text(entry, "file")
    if name.startswith("/") or ".." in name.split("/"):
        raise document.Damaged(f"'{name}' leads out of its folder")
    return ListedFile(name, document.text(entry, "sha256"))


def _listing(data: dict[str, Any]) -> KernelsWheels:
    """Read a package's list of its kernels wheels; raises Damaged."""
    document.text(data, "distribution")
    wheels = document.tables(data, "wheels")
    for each in wheels:
        document.file_name(each, "folder")
        document.text(each, "extra")
    return _wheel(data)._replace(
        distributions=frozenset(document.text(each, "distribution") for each in wheels)
    )


def _wheel(data: dict[str, Any]) -> KernelsWheels:
    """Read a kernels wheel's description of itself; raises Damaged."""
    _check_schema(data)
    sets = document.tables(data, "sets")
    for each in sets:
        document.text(each, "kind")
        document.text(each, "stands-in-for", "")
        document.file_name(each, "cpu", "")
    return KernelsWheels(
        document.text(data, "version"),
        {document.file_name(each, "name"): document.text(each, "abi") for each in sets},
    )


def _check_schema(data: dict[str, Any]) -> None:
    if document.whole(data, "schema") != _SCHEMA:
        raise document.Damaged(f"its schema is not {_SCHEMA}")


def _check_demands(data: dict[str, Any]) -> None:
    """Check the requirements that an index or a recipe has of libraries; raises Damaged."""
    document.file_names(data, "fallbacks")
    packages = document.table(data, "packages") if "packages" in data else {}
    for name in packages:
        document.text(packages, name)


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
