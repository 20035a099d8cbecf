"""Find installed distributions, and name their files as in their wheels."""

import contextlib
import csv
import os
import posixpath
import re
from pathlib import Path

from gpuforge.audit import layout
from gpuforge.errors import MalformedError
from gpuforge.wheel import record
from gpuforge.wheel.archive import files_below

INFO = ".dist-info"
_BINARY = r"\.so(?:\.[\d.]+)?$|\.(?:fatbin|cubin|ptx)$"
_SITE = r"lib\w*/python3[^/]*/(?:site|dist)-packages"  # below an environment, or /usr


def sites(path: Path) -> list[Path]:
    """Return the folders of installed packages: `path` itself or, of an environment, those in it."""
    infos = [entry for entry in path.iterdir() if entry.name.endswith(INFO)]
    installed = len(infos) > 1 or any((info / "INSTALLER").is_file() for info in infos)
    if installed or (infos and path.resolve().name in {"site-packages", "dist-packages"}):
        return [path]
    below = {
        each.resolve(): each for each in sorted(path.glob("lib*/python3*/site-packages")) if each.is_dir()
    }
    return list(below.values())


def python(site: Path) -> str:
    """Return the Python of a folder of packages, from its path: "3.11"; "" if the path does not have it."""
    match = re.search(r"/python(3\.\d+)[^/]*/(?:site|dist)-packages$", os.path.abspath(site))  # noqa: PTH100
    return match[1] if match else ""


def unrecorded(site: Path) -> dict[str, Path]:
    """Return the binaries below a folder of packages that no RECORD lists, by their names there.

    Files that were copied there, and Debian's packages, have no RECORD; the linker finds them nevertheless.
    """
    listed: set[Path] = set()
    for entry in site.iterdir():
        if entry.name.endswith(INFO):
            with contextlib.suppress(OSError, MalformedError):  # reported when that distribution is read
                listed.update(recorded(site, entry.name).values())
    found = files_below(site)
    return {name: file for name, file in found.items() if re.search(_BINARY, name) and file not in listed}


def recorded(site: Path, info: str) -> dict[str, Path]:
    """Return the files of an installed distribution by their names in its wheel."""
    stem = info.removesuffix(INFO)
    with (site / info / "RECORD").open("rb") as stream:
        try:
            names = [posixpath.normpath(row.name) for row in record.rows(stream)]
        except csv.Error as error:
            raise MalformedError.of(
                f"its RECORD is not a list of comma-separated values ({error})"
            ) from error
    below = _below_environment(site)
    return {_member(name, stem, below): site / name for name in names if not name.endswith(".pyc")}


def _below_environment(site: Path) -> str:
    """Return the folder of packages in an environment, for any Python; "" for another folder of them."""
    tail = "/".join(Path(os.path.abspath(site)).parts[-3:])  # noqa: PTH100 - links stay as they were given
    return layout.SITE.removeprefix(f"{layout.ENVIRONMENT}/") if re.fullmatch(_SITE, tail) else ""


def _member(name: str, stem: str, below: str) -> str:
    """Name a file in a wheel by its name in RECORD, in which scripts and data are `../../../bin/x`, `../../libx.so`.

    `below` is the folder that RECORD's names start at, from the environment's own; "" if that is not known.
    """
    if not name.startswith(("../", "/")):
        return name
    outside = posixpath.normpath(f"{below}/{name}") if below and not name.startswith("/") else name
    outside = outside.lstrip("./") if outside.startswith("../") else outside.lstrip("/")
    if outside.startswith("bin/"):
        return f"{stem}.data/scripts/{outside.removeprefix('bin/')}"
    return f"{stem}.data/data/{outside}"
