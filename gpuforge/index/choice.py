"""Chooses the wheels that pip would install for requirements, with uv, from the indexes or this machine's disk."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.pylock import Pylock, PylockValidationError

from gpuforge.errors import ActionError
from gpuforge.index import uv

_LOCK = "pylock.toml"
# Current systems: the newest policy that uv supports. Of several wheels of a release it chooses the one for the newest.
_PLATFORM = "manylinux_2_40"
_NOWHERE = "https://localhost/"  # installed wheels have no address; only their versions matter


class Chosen(NamedTuple):
    """A wheel that was chosen."""

    project: str
    version: str
    file: str
    url: str  # "" for a file on this machine
    path: Path | None
    size: int  # bytes; 0 if the index does not have it


class For(NamedTuple):
    """The environment for the wheels; installed packages are kept if they fit."""

    python: str  # "3.11"
    machine: str  # "x86_64"
    installed: Mapping[str, str] = {}  # project -> version


def choose(requirements: Sequence[str], where: For) -> list[Chosen]:
    """Return the wheels that pip would install for requirements and their dependencies; raises ActionError.

    A requirement may be `name @ file://…`, a wheel on this machine. Installed packages are among the chosen ones.
    Raises MissingError if the index cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="gpuforge-") as folder:
        requirements_file, lock = Path(folder, "wanted.in"), Path(folder, _LOCK)
        requirements_file.write_text("".join(f"{line}\n" for line in requirements))
        if where.installed:
            lock.write_text(_preferred(where.installed))
        options = [f"--python-version={where.python}", f"--python-platform={where.machine}-{_PLATFORM}"]
        options += ["--format=pylock.toml", f"--output-file={lock}"]
        names = ", ".join(line.partition(" @ ")[0] for line in requirements)
        answer = uv.compile_requirements(requirements_file, options, names)
        if answer.returncode:
            raise ActionError.of(
                f"these cannot be installed together: {names}{uv.reason(answer.stderr)}",
                hint="change a requirement, or leave one out",
            )
        return _chosen(lock.read_text(encoding="utf-8"), Path(folder))


def _preferred(installed: Mapping[str, str]) -> str:
    """Return a lock file of the installed packages, whose versions uv prefers to newer ones."""
    tables = [
        f'[[packages]]\nname = "{project}"\nversion = "{version}"\n'
        f'wheels = [{{ url = "{_NOWHERE}{project.replace("-", "_")}-{version}-py3-none-any.whl", hashes = {{}} }}]\n'
        for project, version in installed.items()
    ]
    return "\n".join(['lock-version = "1.0"\ncreated-by = "gpuforge"\n', *tables])


def _chosen(text: str, folder: Path) -> list[Chosen]:
    try:
        packages = Pylock.from_dict(tomllib.loads(text)).packages
    except (tomllib.TOMLDecodeError, PylockValidationError) as error:
        raise ActionError.of(
            f"uv wrote a lock file that cannot be read: {error}", hint="report it as a bug"
        ) from error
    found = []
    for package in packages:
        wheels = package.wheels or ()
        if not wheels or package.version is None:
            continue  # one that was given by its path
        first = wheels[0]  # uv lists those that fit, the best one first
        path = folder / first.path if first.path else _of_file_url(first.url or "")
        url = "" if path else first.url or ""
        found.append(Chosen(package.name, str(package.version), first.filename, url, path, first.size or 0))
    return found


def _of_file_url(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
