"""Fetch the build requirements of a PEP 517 project as wheels, from a list of names and versions."""

from __future__ import annotations

import json
from pathlib import Path

from build import BuildException, ProjectBuilder

from gpuforge import datafile
from gpuforge.errors import ActionError
from gpuforge.plan.requests.build import FetchRequirements
from gpuforge.requirements import WrongLine, read_constraints
from gpuforge.steps import entry, value_file, wheelhouse
from gpuforge.steps.project_requirements import checked
from gpuforge.wheel.filename import LockedWheels

_WITHOUT = "setuptools>=40.8.0"
_LONGEST = 1_000_000  # bytes of the answer of a backend


def main(request: FetchRequirements) -> None:
    """Fill the folder `output`, and write to `lock` what was requested and each wheel's sha256."""
    requirements = [*required(request.source), *request.requires, *answered(request.answer)]
    everything = list(dict.fromkeys(requirements))
    limits = [rewritten(request.constraints, request.scratch)] if request.constraints else []
    wheelhouse.download(
        request.python,
        everything,
        request.output,
        constraints=limits,
        what="the build requirements",
        hint="`[build] requires` and `constraints` can narrow a requirement to a version that has a wheel",
    )
    locked = LockedWheels.of_folder(everything, request.output)
    value_file.write(locked, request.lock)
    print(locked, flush=True)


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


if __name__ == "__main__":
    entry.run(FetchRequirements, main)
