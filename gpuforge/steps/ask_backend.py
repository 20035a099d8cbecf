"""Ask a project's build backend what it needs to build a wheel. It is the project's code, and runs as builds do."""

from __future__ import annotations

import json
from pathlib import Path

from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.utils import canonicalize_name

from gpuforge.errors import ActionError
from gpuforge.plan import git_version
from gpuforge.plan.requests.build import AskBackend
from gpuforge.requirements import requirement_by_name
from gpuforge.steps import entry, value_file
from gpuforge.steps.project_requirements import checked
from gpuforge.steps.shared_environment import protected
from gpuforge.steps.venv import runner_of
from gpuforge.wheel.filename import LockedWheels


def main(request: AskBackend) -> None:
    """Write the backend's requirements to `answer`: none if the wheels of `lock` meet all of them."""
    git_version.write(request.source, request.version)
    answer = requested(request, protected(request.environment, request.python, request.scratch))
    locked = value_file.read(LockedWheels, request.lock)
    unmet = [] if all(is_met(text, locked) for text in answer) else answer
    request.answer.write_text(json.dumps(unmet) + "\n")
    print(f"the backend requires: {', '.join(answer) or 'nothing else'}", flush=True)


def requested(request: AskBackend, python: Path) -> list[str]:
    """Return the backend's requirements, by name and version; raises ActionError for anything else."""
    try:
        backend = ProjectBuilder(request.source, python_executable=str(python), runner=runner_of(python))
        return checked(backend.get_requires_for_build("wheel", request.config_settings), "its build backend")
    except BuildBackendException as error:
        raise ActionError.of(
            f"the project's build backend failed to list its requirements: {error}"
        ) from error
    except BuildException as error:
        raise ActionError.of(
            f"the project cannot be built: {error}", hint="it needs a pyproject.toml"
        ) from error


def is_met(requirement: str, locked: LockedWheels) -> bool:
    """Return whether the locked wheels meet a requirement without an extra or a marker; False for any other."""
    parsed = requirement_by_name(requirement)
    found = {each.project: each.version for each in locked.releases()}
    version = found.get(canonicalize_name(parsed.name))
    plain = not (parsed.extras or parsed.marker)
    return plain and version is not None and parsed.specifier.contains(version, prereleases=True)


if __name__ == "__main__":
    entry.run(AskBackend, main)
