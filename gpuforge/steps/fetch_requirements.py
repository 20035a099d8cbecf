"""Fetch the build requirements of a PEP 517 project, and make the environment that each of its builds starts from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.utils import canonicalize_name, parse_wheel_filename

from gpuforge import digest
from gpuforge.errors import ActionError
from gpuforge.manifest import constraints
from gpuforge.plan.requests.build import FetchRequirements
from gpuforge.steps import entry, wheelhouse
from gpuforge.steps.venv import create, install, runner_of


def main(request: FetchRequirements) -> None:
    """Write the environment to `output`, and to `lock` what was requested and each wheel's sha256."""
    limits = [rewritten(request.constraints, request.scratch)] if request.constraints else []
    try:
        static = checked(
            sorted(ProjectBuilder(request.source).build_system_requires), "its pyproject.toml asks"
        )
        wheels = request.scratch / "static"
        download(request.python, [*static, *request.requires], wheels, limits)
        python = create(request.python, request.output)
        install(python, wheels)
        backend = ProjectBuilder(request.source, python_executable=str(python), runner=runner_of(python))
        dynamic = sorted(backend.get_requires_for_build("wheel", request.config_settings))
        dynamic = checked(dynamic, "its build backend asks")
    except BuildBackendException as error:
        raise ActionError.of(f"the project's build backend could not say what it needs: {error}") from error
    except BuildException as error:
        raise ActionError.of(
            f"the project cannot be built: {error}", hint="it needs a pyproject.toml"
        ) from error
    everything = list(dict.fromkeys([*static, *request.requires, *dynamic]))
    if not all(is_met(text, wheels) for text in dynamic):  # everything is chosen anew, together
        first, wheels = wheels, request.scratch / "all"
        download(request.python, everything, wheels, limits, [first])
        shutil.rmtree(request.output)
        install(create(request.python, request.output), wheels)
    found = {path.name: digest.of_file(path) for path in sorted(wheels.glob("*.whl"))}
    request.lock.write_text(json.dumps({"requires": everything, "wheels": found}, indent=1) + "\n")
    print(f"{len(found)} wheels for: {', '.join(everything)}", flush=True)


def checked(requirements: Sequence[str], who: str) -> list[str]:
    """Return a project's requirements by name and version; raises ActionError for options and direct references."""
    try:
        return [str(constraints.plain(text)) for text in requirements]
    except ValueError as error:
        raise ActionError.of(
            f"the project cannot be built: {who} for what is not a requirement by name: {error}",
            hint="requirements come from the package index, by name; set one of your own as for pip (PIP_INDEX_URL)",
        ) from None


def rewritten(path: Path, scratch: Path) -> Path:
    """Write a file of constraints anew, with what was understood of it and nothing else; return that file.

    Raises ActionError when a line is not understood.
    """
    lines = []
    for found in constraints.read(path.read_text(encoding="utf-8", errors="replace")):
        if isinstance(found, constraints.Wrong):
            raise ActionError.of(f"[build] constraints: line {found.line}: {found.what}", hint=found.hint)
        lines.append(f"{found}\n")
    scratch.mkdir(parents=True, exist_ok=True)
    new = scratch / "constraints.txt"
    new.write_text("".join(lines), encoding="utf-8")
    return new


def is_met(requirement: str, wheels: Path) -> bool:
    """Say whether a folder of wheels holds what the backend asks for, as far as names and versions tell."""
    wanted = constraints.plain(requirement)
    found = dict(parse_wheel_filename(path.name)[:2] for path in wheels.glob("*.whl"))
    version = found.get(canonicalize_name(wanted.name))
    plain = not (wanted.extras or wanted.marker)
    return plain and version is not None and wanted.specifier.contains(version, prereleases=True)


def download(
    python: Path,
    requirements: Sequence[str],
    folder: Path,
    constraints: Sequence[Path],
    at_hand: Sequence[Path] = (),
) -> None:
    """Download build requirements; see `wheelhouse.download`."""
    wheelhouse.download(
        python,
        requirements,
        folder,
        at_hand,
        constraints=constraints,
        what="the build requirements",
        hint="`[build] requires` and `constraints` can narrow a requirement to a version that has a wheel",
    )


if __name__ == "__main__":
    entry.run(FetchRequirements, main)
