"""What a project requires to be built, from its files or its own code: names and versions, and nothing else."""

import json
from pathlib import Path

from build import BuildException, ProjectBuilder
from packaging.utils import canonicalize_name

from gpuforge import datafile
from gpuforge.errors import ActionError
from gpuforge.requirements import WrongLine, read_constraints, requirement_by_name
from gpuforge.wheel.filename import LockedWheels

_WITHOUT = "setuptools>=40.8.0"
_LONGEST = 1_000_000  # bytes of the answer of a backend
_MOST = 1000  # requirements
_HINT = "requirements come from a package index, by name; PIP_INDEX_URL names another index, as for pip"


def checked(requirements: object, who: str) -> list[str]:
    """Return requirements by name and version, sorted; `who` is their author in a message.

    Raises ActionError for options, direct references and anything but a list of text.
    """
    if not isinstance(requirements, list | set) or len(requirements) > _MOST:
        raise _refused(f"{who} has something other than a list of at most {_MOST} requirements")
    try:
        return sorted(str(requirement_by_name(text)) for text in requirements)
    except ValueError as error:
        raise _refused(f"{who} has a requirement that is not a name with versions: {error}") from None


def _refused(why: str) -> ActionError:
    return ActionError.of(f"the project cannot be built: {why}", hint=_HINT)


def required(source: Path) -> list[str]:
    """Return the requirements in a project's pyproject.toml; none of its code runs.

    A project without that file is built by setuptools (PEP 517).
    """
    file = source / "pyproject.toml"
    if not file.exists():
        return [_WITHOUT]
    if excess := too_much(file):
        raise ActionError.of(f"the project cannot be built: {excess}", hint="correct its pyproject.toml")
    try:
        found = ProjectBuilder(source).build_system_requires
    except (BuildException, RecursionError, ValueError) as error:
        why = "its pyproject.toml is nested too deeply" if isinstance(error, RecursionError) else error
        raise ActionError.of(
            f"the project cannot be built: {why}", hint="correct its pyproject.toml"
        ) from error
    return checked(found, "its pyproject.toml")


def too_much(file: Path) -> str:
    """Return why a file is not parsed as TOML; "" if it may be."""
    if file.stat().st_size > datafile.LARGEST:
        return f"its {file.name} is larger than {datafile.LARGEST >> 20} MiB"
    long = datafile.long_key(file.read_text(encoding="utf-8", errors="replace")) is not None
    return f"a key in its {file.name} has more than {datafile.MOST_PARTS} parts" if long else ""


def answered(file: Path) -> list[str]:
    """Return the requirements of the project's build backend, from the file that `ask_backend` wrote.

    The project's code could write to that file, so its content is checked again.
    """
    if file.stat().st_size > _LONGEST:
        raise ActionError.of(f"the answer of the project's build backend is larger than {_LONGEST} bytes")
    try:
        return checked(json.loads(file.read_bytes()), "its build backend asks")
    except (ValueError, RecursionError) as error:
        raise ActionError.of(f"the answer of the project's build backend is not JSON: {error}") from error


def rewritten(path: Path, scratch: Path) -> Path:
    """Rewrite a file of constraints with nothing but the lines that were understood; return the new file.

    Raises ActionError when a line is not understood.
    """
    lines = []
    for found in read_constraints(path.read_text(encoding="utf-8", errors="replace")):
        if isinstance(found, WrongLine):
            raise ActionError.of(f"[build] constraints: line {found.line}: {found.what}", hint=found.hint)
        lines.append(f"{found}\n")
    scratch.mkdir(parents=True, exist_ok=True)
    new = scratch / "constraints.txt"
    new.write_text("".join(lines), encoding="utf-8")
    return new


def is_met(requirement: str, locked: LockedWheels) -> bool:
    """Return whether the locked wheels meet a requirement without an extra or a marker; False for any other."""
    parsed = requirement_by_name(requirement)
    found = {each.project: each.version for each in locked.releases()}
    version = found.get(canonicalize_name(parsed.name))
    plain = not (parsed.extras or parsed.marker)
    return plain and version is not None and parsed.specifier.contains(version, prereleases=True)
