"""Read the kernel sets and source sets that gpuforge itself puts into wheels (`<import>/_gpuforge/...`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from gpuforge.audit.model import KernelSet, SourceSet
from gpuforge.wheel.archive import Archive, Member

_INDEX = r"(.*_gpuforge/kernels/[^/]+)/index\.json"
_RECIPE = r"(.*_gpuforge/sources/[^/]+)/recipe\.json"
_INCLUDED = rb"(?m)^[ \t]*#[ \t]*(?:include|line[ \t]+\d+|\d+)[ \t]*[<\"](/[^>\"\n]+)"
_LARGEST_SOURCE = 16 << 20  # bytes; larger files are data
_LARGEST_INDEX = 1 << 20  # bytes; gpuforge writes some hundred for each module
_PARSED = 8  # characters of the budget for each of JSON, whose lists and numbers take more room than its text


def kernel_sets(archive: Archive) -> Iterator[KernelSet]:
    """Yield every kernel set, with the sha256 of each of its files. Raises MalformedError for a broken archive."""
    for member, folder in _found(archive, _INDEX):
        index, problem = _json(archive, member)
        yield KernelSet(folder, index, _digests(archive, folder, member), problem)


def source_sets(archive: Archive) -> Iterator[SourceSet]:
    """Yield every set of user-compiled sources. Raises MalformedError for a broken archive."""
    for member, folder in _found(archive, _RECIPE):
        recipe, problem = _json(archive, member)
        digests = _digests(archive, folder, member)
        yield SourceSet(folder, recipe, digests, problem, _absolute(archive, folder))


def document(archive: Archive, name: str) -> dict[str, object]:
    """Return what the runtime reads of kernels wheels, `wheels.json` or `wheel.json`; {} where there is none."""
    for member in archive.members:
        if member.name.endswith(f"/_gpuforge/{name}"):
            return _json(archive, member)[0]
    return {}


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


def _found(archive: Archive, pattern: str) -> Iterator[tuple[Member, str]]:
    for member in archive.members:
        if "_gpuforge/" in member.name and (match := re.fullmatch(pattern, member.name)):
            yield member, match[1]


def _digests(archive: Archive, folder: str, index: Member) -> dict[str, str]:
    archive.budget.spend("edges", len(archive.members))
    return {
        m.name.removeprefix(f"{folder}/"): _sha256(archive, m)
        for m in archive.members
        if m.name.startswith(f"{folder}/") and m.name != index.name
    }


def _json(archive: Archive, member: Member) -> tuple[dict[str, object], str]:
    if member.size > _LARGEST_INDEX:
        return {}, f"it is {member.size} bytes long"
    archive.budget.spend("names", _PARSED * member.size)
    try:
        value = json.loads(archive.data(member))
    except (ValueError, RecursionError) as error:
        return {}, f"it is not JSON ({error})"
    return (value, "") if isinstance(value, dict) else ({}, "it is not a JSON object")


def _sha256(archive: Archive, member: Member) -> str:
    import hashlib  # noqa: PLC0415  few wheels have kernel sets

    digest = hashlib.sha256()
    for chunk in archive.chunks(member):
        digest.update(chunk)
    return digest.hexdigest()
