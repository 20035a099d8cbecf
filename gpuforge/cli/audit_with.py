"""The wheels for `gpuforge audit --with`: those that pip would install beside the given ones."""

import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuforge.audit.read import environment
from gpuforge.audit.read.input import Beside, Input, Remote
from gpuforge.cli.terminal import count, say
from gpuforge.cpython import CPython
from gpuforge.cuda import carriers
from gpuforge.errors import ActionError, UsageError
from gpuforge.requirements import requirement_by_name
from gpuforge.wheel import filename, metadata, package_index, remote
from gpuforge.wheel.archive import Archive, info_folders
from gpuforge.wheel.dist_info import DistInfo
from gpuforge.wheel.package_index import public, session

_PROJECT = r"[a-z0-9]+(?:-[a-z0-9]+)*"


def installed_with(
    wheels: Sequence[Path], requirements: Sequence[str], folder: Path | None = None, python: str | None = None
) -> Beside:
    """Return an environment, if there is one, and the wheels that pip would install for requirements and given wheels.

    Raises UsageError for a text that is neither an environment nor a requirement, and for requirements that cannot be
    installed together with the wheels. Raises ActionError for a broken wheel, and MissingError if the index cannot be
    reached.
    """
    beside = [_requirement(text) for text in requirements]
    given = [path for path in wheels if path.suffix == ".whl" and path.is_file()]
    installed = _installed(folder) if folder else {}
    machine = filename.machine_of(path.name for path in given)
    where = package_index.For(python or python_for(folder, given), machine, installed)
    own = [_own(path) for path in given]
    try:
        chosen = package_index.choose([*own, *beside], where)
    except ActionError as error:  # nothing is audited, so findings are not the reason
        raise UsageError.all_of(error.diagnostics) from error
    new = [each for each in chosen if installed.get(each.project) != each.version]
    say(_summary(new, where.python, len(chosen) - len(new)))
    client = session()
    return Beside(folder, tuple(_input(each, client) for each in new))


def published(text: str, wheels: Sequence[Path]) -> list[Input]:
    """Return the wheels of a requirement (--like), one for each Python that the given wheels are for.

    Raises UsageError for a text that is not a requirement or has no wheel, MissingError if the index cannot be reached.
    """
    requirement = _requirement(text, "--like")
    files = [path for each in wheels for path in ([each] if each.is_file() else sorted(each.rglob("*.whl")))]
    client = session()
    found: dict[str, package_index.Chosen] = {}
    for python in dict.fromkeys(python_for(None, [file]) for file in files) or [python_for(None, [])]:
        try:
            chosen = package_index.choose(
                [requirement],
                package_index.For(python, filename.machine_of(path.name for path in files), alone=True),
            )
        except ActionError as error:
            raise UsageError.all_of(error.diagnostics) from error
        found |= {each.file: each for each in chosen}
    say(f"--like chose {', '.join(found)}; reading {sum(e.size for e in found.values()) / 1e6:,.1f} MB")
    return [_input(each, client, outline=False) for each in found.values()]


def _requirement(text: str, option: str = "--with") -> str:
    try:
        return str(requirement_by_name(text))
    except ValueError as error:
        raise UsageError.of(
            f"{option} {text}: {error}", hint="write a name and versions, as in 'jax[cuda12]>=0.5'"
        ) from None


def _own(wheel: Path) -> str:
    """Return a wheel as a requirement; raises ActionError if it would make pip fetch something else."""
    with Archive(wheel) as archive:
        info = DistInfo.of(archive, info_folders(archive) or [".dist-info"])
    metadata.refuse_references(metadata.parsed(info.requires), wheel.name)
    return f"{filename.project(wheel.name)} @ {wheel.absolute().as_uri()}"


def _installed(folder: Path) -> dict[str, str]:
    """Return the versions in an environment, without names and versions that pip does not write."""
    found = {}
    for each in environment.packages(folder):
        try:
            version = str(Version(each.version))
        except InvalidVersion:
            continue
        if re.fullmatch(_PROJECT, each.project):
            found[each.project] = version
    return found


def python_for(folder: Path | None, wheels: Sequence[Path]) -> str:
    """Return the Python to install for: that of the environment or of the wheels, else gpuforge's own."""
    if folder and (known := environment.python_of(folder)):
        return known
    own = CPython(*sys.version_info[:2])
    for wheel in wheels:
        tags = filename.claims(wheel.name).tags
        only = {python for tag in tags if (python := CPython.of_tag(tag.abi))}
        stable = {python for tag in tags if (python := CPython.of_tag(tag.interpreter)) and python > own}
        if found := only or stable:
            return str(min(found))
    return str(own)


def _input(chosen: package_index.Chosen, client: remote.Session, *, outline: bool = True) -> Input:
    """Return a wheel to read; with `outline` one of NVIDIA's without its libraries, whose needs are in tables."""
    if chosen.path:
        return Input.of(chosen.path)
    outline = outline and canonicalize_name(chosen.project) in carriers.nvidia_packages()
    wheel = Remote(partial(remote.opened, client, chosen.file, chosen.url), chosen.size, outline=outline)
    return Input(chosen.file, Path(chosen.file), PurePosixPath(public(chosen.url)), remote=wheel)


def _summary(new: Sequence[package_index.Chosen], python: str, kept: int) -> str:
    fetched = [each for each in new if not each.path]
    read = [each for each in fetched if each.project not in carriers.nvidia_packages()]
    size = sum(each.size for each in read) / 1e6
    there = f", {kept} are in the environment" if kept else ""
    return (
        f"--with chose {count(len(new), 'wheel')} for Python {python}{there}; "
        f"reading {size:,.0f} MB in {len(read)} of them from the package index, and the lists of files of the others"
    )
