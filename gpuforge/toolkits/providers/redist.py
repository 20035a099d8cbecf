"""CUDA toolkits of NVIDIA's redistributable archives, from CUDA 11.4 on; data/redist.toml.

Libraries outside the toolkits, such as NCCL, come from PyPI.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from gpuforge import digest
from gpuforge.cuda.suffix import of_nvidia
from gpuforge.cuda.version import major_of
from gpuforge.datafile import load
from gpuforge.errors import UsageError
from gpuforge.toolkits import pip, toolkit_tree
from gpuforge.toolkits.pins import beside, beside_toolkits, check_libraries
from gpuforge.toolkits.progress import Say, quiet
from gpuforge.toolkits.toolkit import VERSIONS, Archives, Toolkit, ToolkitFiles, ToolkitRequest

PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa"}  # NVIDIA's names
_MACHINES = {platform: machine for machine, platform in PLATFORMS.items()}


def minors() -> tuple[str, ...]:
    """Return the toolkits that NVIDIA has as archives and gpuforge supports, oldest first."""
    return tuple(_releases())


def offer(request: ToolkitRequest) -> Toolkit | None:
    """Return the toolkit, None if there are no archives of it; raises UsageError for an unknown library."""
    if request.minor not in _releases():
        return None
    files = source(request.minor, request.libraries, request.machine)
    identity = digest.of_data(asdict(files))
    origin = f"NVIDIA's archives of {files.label}"
    return Toolkit(request.minor, "redist", identity, files.nvcc, origin, source=files)


def absent(request: ToolkitRequest, elsewhere: str) -> UsageError:
    """Return the error for a toolkit without archives; `elsewhere` names the providers that have it."""
    return UsageError.of(
        f'provider = "redist" has no CUDA {request.minor}; it has {", ".join(minors())}',
        hint=f"leave the provider out: {elsewhere}",
    )


def source(toolkit: str, libraries: Sequence[str], machine: str) -> Archives:
    """Return the archives of a toolkit with the `libraries`, from GPUFORGE_REDIST_URL, else from NVIDIA.

    Raises UsageError for an unknown library, with the nearest names.
    """
    data = load(__file__, "redist.toml")
    major = major_of(toolkit)
    check_libraries(libraries, [*data["libraries"], *beside_toolkits(major)], toolkit)
    wheels, others = beside(libraries, major, machine)
    groups = list(data["compiler"].values())
    groups += [group for name, group in data["libraries"].items() if name in libraries]
    groups += [[name] for name, package in data["packages"].items() if package in others]
    needed, archives = {group[0] for group in groups}, {name for group in groups for name in group}
    row = _releases()[toolkit]
    return Archives(
        label=row["label"],
        nvcc=row["nvcc"],
        platform=PLATFORMS[machine],
        needed=tuple(sorted(needed)),
        optional=tuple(sorted(archives - needed)),
        projects={
            name: of_nvidia(data["packages"][name], major)
            for name in sorted(archives & data["packages"].keys())
        },
        pins=wheels,
        url=(os.environ.get("GPUFORGE_REDIST_URL") or data["source"]).rstrip("/"),
    )


def fetch(source: ToolkitFiles, destination: Path, *, say: Say = quiet) -> None:
    """Download, check and unpack the archives of `source`, and make the toolkit tree at `destination`.

    `destination` must be empty or absent; nothing is left there if it fails. Raises MissingError if the server cannot
    be reached or has no such release, ActionError for unexpected content.
    """
    from gpuforge.toolkits import redist_archives  # noqa: PLC0415  plans fetch nothing
    from gpuforge.toolkits.download import download  # noqa: PLC0415  plans fetch nothing

    assert isinstance(source, Archives)  # noqa: S101  as `offer` returns them
    with toolkit_tree.staged(destination) as partial:
        made = partial / "tree"
        made.mkdir()
        listed = redist_archives.release_list(source, partial / "list.json")
        found = list(redist_archives.archives(source, listed))
        versions = {pin.package: pin.version for pin in source.pins}
        for archive in found:
            say(f"fetching {archive.name} {archive.version} ({archive.size / 1e6:.0f} MB)")
            file = partial / "archive"
            download(f"{source.url}/{archive.path}", file, sha256=archive.sha256, say=say)
            redist_archives.unpack(archive, file, made)
            file.unlink()
            if archive.name in source.projects:
                versions[source.projects[archive.name]] = archive.version
        if source.pins:
            pip.fetch_wheels(source.pins, partial, say)
            pip.merge_beside(partial / "site", made)
            pip.keep_dist_info(partial / "site", made)
        (made / VERSIONS).write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n")
        toolkit_tree.complete(made, _MACHINES[source.platform])
    say(f"CUDA toolkit ready in {destination}")


@cache
def _releases() -> Mapping[str, Any]:
    return {row["toolkit"]: row for row in load(__file__, "redist.toml")["release"]}
