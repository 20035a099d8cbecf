"""The packages that the wheels of an audit are installed with: those of an environment, and further wheels.

No program of an environment is run, not even its Python: only its folders and files are read.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from packaging.utils import canonicalize_name

from gpuforge.audit.read.input import Beside, Input
from gpuforge.audit.read.site_packages import INFO, python, sites, unrecorded
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import UsageError
from gpuforge.wheel import filename

_CONFIGURATION = "pyvenv.cfg"
_LARGEST = 1 << 16  # bytes of it
_VERSION = r"(?m)^version(?:_info)?\s*=\s*(3\.\d{1,3})\b"
_EDITABLE = r"__editable__[^/]*|[^/]*\.egg-link|easy-install\.pth"


class InstalledDistribution(NamedTuple):
    """A distribution of an environment."""

    project: str
    version: str
    info: str  # its .dist-info folder


def packages(environment: Path) -> list[InstalledDistribution]:
    """Return the distributions of an environment, or of its folder of packages; raises UsageError."""
    return [
        InstalledDistribution(canonicalize_name(name), version, info)
        for site in folders(environment)
        for info in sorted(entry.name for entry in site.iterdir() if entry.name.endswith(INFO))
        for name, version in [filename.of_info(info)]
    ]


def folders(environment: Path) -> list[Path]:
    """Return an environment's folders of packages; raises UsageError if there are none."""
    try:
        found = sites(environment)
    except OSError as error:
        raise UsageError.of(
            f"--env {environment}: {error.strerror or error}", hint="name the folder of an environment"
        ) from error
    if not found:
        raise UsageError.of(
            f"--env {environment}: it is not an environment: it has no lib/python3.*/site-packages",
            hint="name the folder that `python -m venv` made, or its site-packages folder",
        )
    return found


def python_of(environment: Path) -> str:
    """Return the minor of an environment's Python, "3.11", from its folders or its pyvenv.cfg; "" if neither has it."""
    known = [found for site in folders(environment) if (found := python(site))]
    file = environment / _CONFIGURATION
    if not known and file.is_file():
        with file.open(encoding="utf-8", errors="replace") as stream:
            known = re.findall(_VERSION, stream.read(_LARGEST))
    return known[0] if known else ""


def inputs(beside: Beside, judged: Collection[Input]) -> Iterator[Input]:
    """Yield the inputs that are read beside the `judged` ones, without packages that these replace."""
    replaced = {one.claims.project for one in (*judged, *beside.wheels)} - {""}
    for site in folders(beside.environment) if beside.environment else ():
        for one in packages(site):
            if one.project not in replaced and (site / one.info / "RECORD").is_file():
                yield Input(one.info, site, PurePosixPath(site / one.info), "installed", info=one.info)
        if unrecorded(site):
            label = f"{site.name} (in no RECORD)"
            yield Input(label, site, PurePosixPath(site), "folder", unrecorded=True)
    yield from beside.wheels


def overriding(library_path: Iterable[Path]) -> dict[str, str]:
    """Return the shared libraries in the folders of LD_LIBRARY_PATH, each with the first folder that has it."""
    found: dict[str, str] = {}
    for folder in library_path:
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        for name in names:
            if ".so" in name:
                found.setdefault(name, str(folder))
    return found


def problems(environment: Path) -> Iterator[Diagnostic]:
    """Yield the packages of an environment that lie elsewhere and are therefore not read."""
    for site in folders(environment):
        for entry in sorted(site.iterdir()):
            if re.fullmatch(_EDITABLE, entry.name):
                yield Diagnostic(
                    "an editable installation: its files lie elsewhere and are not read",
                    Place(str(entry)),
                    "install it without -e, or give its wheel, too",
                )
