"""NVIDIA's redistributable archives: reads the list of a release, and unpacks archives."""

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits.download import GoneError, download
from gpuforge.toolkits.toolkit import Archives


@dataclass(frozen=True, slots=True)
class RedistArchive:
    """One archive in the release's list."""

    name: str
    version: str
    path: str  # relative to the list
    sha256: str
    size: int  # bytes


def release_list(source: Archives, file: Path) -> Mapping[str, Any]:
    """Return the release's list; raises MissingError if there is none, ActionError for another content."""
    url = f"{source.url}/redistrib_{source.label}.json"
    try:
        download(url, file)
    except GoneError:
        raise MissingError.of(
            f"no list of CUDA {source.label}'s archives at {url}",
            hint="check GPUFORGE_REDIST_URL: the folder that holds redistrib_*.json",
        ) from None
    try:
        data = json.loads(file.read_bytes())
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ActionError.of(
            f"{url} is not a list of archives", hint="a proxy may have answered in its place"
        )
    return data


def archives(source: Archives, data: Mapping[str, Any]) -> Iterator[RedistArchive]:
    """Yield the archives to fetch; raises ActionError for one that is missing or differs from the plan."""
    for name in sorted({*source.needed, *source.optional}):
        entry = data.get(name, {})
        row = entry.get(source.platform)
        if row is None:
            if name in source.needed:
                raise ActionError.of(
                    f"CUDA {source.label} has no {name} for {source.platform} among NVIDIA's archives"
                )
            continue
        try:
            found = RedistArchive(
                name, entry["version"], row["relative_path"], row["sha256"], int(row.get("size", 0))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ActionError.of(
                f"the entry of {name} in the list of archives is incomplete: {error}"
            ) from None
        path = PurePosixPath(found.path)
        if path.is_absolute() or ".." in path.parts:
            raise ActionError.of(f"the list of archives has {name} at {found.path}, outside its folder")
        if name == "cuda_nvcc" and found.version != source.nvcc:
            raise ActionError.of(
                f"CUDA {source.label} should have nvcc {source.nvcc}, and the list of archives has {found.version}",
                hint="report it: gpuforge's table of releases is wrong",
            )
        yield found


def unpack(archive: RedistArchive, file: Path, made: Path) -> None:
    """Unpack an archive into the tree, without its top folder; its licence goes to `dist-info`.

    Nothing is written outside the tree: PEP 706's `data` filter is in Python since 3.11.4, and before that the same
    check is here. Raises ActionError for an archive that would, or that is damaged.
    """
    filtered: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    try:
        with tarfile.open(file, mode="r:*") as bundle:
            for member in bundle:
                target = _place(archive, PurePosixPath(member.name).parts[1:])
                if target is None or not (member.isfile() or member.issym()):
                    continue
                _check_inside(made, target, member)
                member.name = str(target)
                bundle.extract(member, made, **filtered)
    except (tarfile.TarError, EOFError) as error:
        raise ActionError.of(f"{archive.path} cannot be unpacked: {error}", hint="try again") from error


def _place(archive: RedistArchive, inner: tuple[str, ...]) -> PurePosixPath | None:
    """Return the place in the tree of an archive's file, from its path without the top folder."""
    if len(inner) == 1:
        return PurePosixPath("dist-info", archive.name, *inner)
    if inner[:1] == ("lib64",):
        return PurePosixPath("lib", *inner[1:])
    return PurePosixPath(*inner) if inner else None


def _check_inside(made: Path, target: PurePosixPath, member: tarfile.TarInfo) -> None:
    root = made.resolve()
    leads = [made / target, *([made / target.parent / member.linkname] if member.issym() else [])]
    if any(not path.resolve().is_relative_to(root) for path in leads):
        raise tarfile.TarError(f"{member.name} leads outside the archive")
