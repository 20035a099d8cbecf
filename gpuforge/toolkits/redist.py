"""NVIDIA's redistributable archives, CUDA 11.4 on: which release and which archives; data in data/redist.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from gpuforge.datafile import load
from gpuforge.errors import UsageError
from gpuforge.toolkits.pypi import check_libraries

VERSIONS = "packages.json"  # in the tree: the wheels of PyPI that its libraries are of, with versions
PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa"}  # NVIDIA's names


@dataclass(frozen=True, slots=True)
class Archives:
    """The archives of one release that make a toolkit."""

    label: str  # of the release: "12.4.1"
    nvcc: str  # what its compiler must be: "12.4.131"
    platform: str  # "linux-x86_64"
    needed: tuple[str, ...]  # the archives' names: "cuda_nvcc"
    optional: tuple[str, ...]  # taken where the release has them
    url: str  # the folder of redistrib_<label>.json

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Archives:
        """Make it of what `as_data` gave; raises UsageError if anything is missing."""
        try:
            lists = {name: tuple(data[name]) for name in ("needed", "optional")}
            return cls(**{**{name: data[name] for name in ("label", "nvcc", "platform", "url")}, **lists})
        except (KeyError, TypeError):
            raise UsageError.of(f"not the archives of a toolkit: {data!r}") from None

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return asdict(self)


def toolkits() -> tuple[str, ...]:
    """Return the toolkit minors that NVIDIA has as archives and gpuforge knows, oldest first."""
    return tuple(_releases())


def archives(toolkit: str, libraries: Sequence[str], machine: str) -> Archives:
    """Return what makes a toolkit with the `libraries`, from GPUFORGE_REDIST_URL, else from NVIDIA.

    Raises UsageError for a library that is not known, with the nearest names.
    """
    data = load(__file__, "redist.toml")
    check_libraries(libraries, data["libraries"], toolkit)
    groups = [*data["compiler"].values(), *(data["libraries"][name] for name in libraries)]
    needed = {group[0] for group in groups}
    row = _releases()[toolkit]
    return Archives(
        label=row["label"],
        nvcc=row["nvcc"],
        platform=PLATFORMS[machine],
        needed=tuple(sorted(needed)),
        optional=tuple(sorted({name for group in groups for name in group} - needed)),
        url=(os.environ.get("GPUFORGE_REDIST_URL") or data["source"]).rstrip("/"),
    )


def package(archive: str, cuda: int) -> str | None:
    """Return the package on PyPI with an archive's libraries for this CUDA major, if there is one."""
    name = load(__file__, "redist.toml")["packages"].get(archive)
    return name if name is None or cuda >= 13 else f"{name}-cu{cuda}"


@cache
def _releases() -> Mapping[str, Any]:
    return {row["toolkit"]: row for row in load(__file__, "redist.toml")["release"]}
