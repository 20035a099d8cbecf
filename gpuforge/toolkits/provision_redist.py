"""Make a CUDA toolkit of NVIDIA's redistributable archives, as the release's redistrib_*.json lists them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gpuforge.errors import ActionError, MissingError
from gpuforge.toolkits import redist, tree
from gpuforge.toolkits.download import GoneError, download
from gpuforge.toolkits.provision import Say, quiet
from gpuforge.toolkits.redist import Archives

_MACHINES = {platform: machine for machine, platform in redist.PLATFORMS.items()}


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive as the release's list has it."""

    name: str
    version: str
    path: str  # relative to the list
    sha256: str
    size: int  # bytes


def provision_redist(wanted: Archives, destination: Path, *, say: Say = quiet) -> None:
    """Download the archives that `wanted` names, check and unpack them; make the toolkit tree at `destination`.

    `destination` must not exist or be an empty folder; nothing is left there when it fails. Raises MissingError
    when the server cannot be reached or has no such release, ActionError when something is not as it should be.
    """
    with tree.staged(destination) as partial:
        made = partial / "tree"
        made.mkdir()
        found = list(archives(wanted, release_list(wanted, partial / "list.json")))
        versions = {}
        for archive in found:
            say(f"fetching {archive.name} {archive.version} ({archive.size / 1e6:.0f} MB)")
            file = partial / "archive"
            download(f"{wanted.url}/{archive.path}", file, sha256=archive.sha256)
            unpack(archive, file, made)
            file.unlink()
            package = redist.package(archive.name, int(wanted.label.partition(".")[0]))
            if package:
                versions[package] = archive.version
        (made / redist.VERSIONS).write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n")
        tree.complete(made, _MACHINES[wanted.platform])
    say(f"CUDA toolkit ready in {destination}")


def release_list(wanted: Archives, file: Path) -> Mapping[str, Any]:
    """Return the release's list; raises MissingError when there is none, ActionError when it is something else."""
    url = f"{wanted.url}/redistrib_{wanted.label}.json"
    try:
        download(url, file)
    except GoneError:
        raise MissingError.of(
            f"there is no list of CUDA {wanted.label}'s archives at {url}",
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


def archives(wanted: Archives, data: Mapping[str, Any]) -> Iterator[Archive]:
    """Yield the archives to fetch; raises ActionError for one that is missing or is not what was planned with."""
    for name in sorted({*wanted.needed, *wanted.optional}):
        entry = data.get(name, {})
        row = entry.get(wanted.platform)
        if row is None:
            if name in wanted.needed:
                raise ActionError.of(
                    f"CUDA {wanted.label} has no {name} for {wanted.platform} among NVIDIA's archives"
                )
            continue
        try:
            found = Archive(
                name, entry["version"], row["relative_path"], row["sha256"], int(row.get("size", 0))
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ActionError.of(
                f"the entry of {name} in the list of archives is incomplete: {error}"
            ) from None
        path = PurePosixPath(found.path)
        if path.is_absolute() or ".." in path.parts:
            raise ActionError.of(f"the list of archives has {name} at {found.path}, outside its folder")
        if name == "cuda_nvcc" and found.version != wanted.nvcc:
            raise ActionError.of(
                f"CUDA {wanted.label} should have nvcc {wanted.nvcc}, and the list of archives has {found.version}",
                hint="report it: gpuforge's table of releases is wrong",
            )
        yield found


def unpack(archive: Archive, file: Path, made: Path) -> None:
    """Unpack an archive into the tree, without its top folder; its licence goes to `dist-info`.

    Nothing is written outside the tree (PEP 706's `data` filter, which Python has since 3.11.4, and before that the
    same check here); raises ActionError for an archive that would, or that is damaged.
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


def _place(archive: Archive, inner: tuple[str, ...]) -> PurePosixPath | None:
    """Return where a file of an archive goes in the tree, from its path without the top folder."""
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
