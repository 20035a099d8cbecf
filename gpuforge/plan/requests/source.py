"""The request for a project's source."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpuforge.plan.requests.request import Request


@dataclass(frozen=True)
class Sdist:
    """A source distribution of the package index: `requirement` is NAME==VERSION."""

    requirement: str
    sha256: str


@dataclass(frozen=True)
class LocalSdist:
    """A source distribution on this machine, under its own file name."""

    file: Path
    name: str


@dataclass(frozen=True)
class Revision:
    """A commit, tag or branch of a git repository."""

    repository: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class FetchSource(Request):
    """Fetch a source tree into the folder `output`."""

    program: ClassVar[str] = "fetch_source"
    source: Sdist | LocalSdist | Revision
    scratch: Path
    output: Path
