"""Run a project's own PEP 517 build in an isolated environment, with the toolchain given by the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from build import BuildBackendException, BuildException, ProjectBuilder

from gpuforge import tree
from gpuforge.errors import ActionError
from gpuforge.plan import git_version
from gpuforge.plan.requests.build import HostBuild
from gpuforge.steps import cached_compilers, compiler_cache, entry, stable_nvcc
from gpuforge.steps.venv import HookRunner, adopt, runner_of
from gpuforge.toolchains.sccache import CacheUse


def main(request: HostBuild) -> dict[str, Any]:
    """Build one wheel into the folder `output`; compilers, toolkit and architectures come by environment variables.

    Returns what the compiler cache was used for.
    """
    git_version.write(request.source, request.version)
    settings = compiler_cache.take_settings(os.environ)
    overlay = request.scratch / "overlay"
    overlay.mkdir()
    for folder in request.overlays:
        tree.copy(folder, overlay)
    for name, folder in request.sdists.items():
        tree.copy(folder, overlay / name)
    programs = request.scratch / "bin"
    for name, path in request.compilers.items():
        cached_compilers.write(path, name, programs)
    if request.nvcc:
        stable_nvcc.write(request.nvcc, request.scratch / "cuda", request.scratch / "nvcc")
    python = adopt(request.environment, request.python)
    request.output.mkdir()
    used: list[CacheUse] = []
    with compiler_cache.serving(settings, request.scratch, used.append) as variables:
        os.environ.update(variables)
        build(request, runner_of(python))
    if request.libraries:
        _keep_libraries(overlay, request.libraries)
    return {"compiler_cache": asdict(used[0])}


def build(request: HostBuild, runner: HookRunner) -> None:
    """Run `[build] before`, then the project's build backend; raises ActionError when one of them fails."""
    for command in request.before:
        run_before(runner, command, request.source)
    try:
        builder = ProjectBuilder(
            request.source, python_executable=str(request.environment / "bin/python"), runner=runner
        )
        print("wheel:", builder.build("wheel", request.output, request.config_settings), flush=True)
    except BuildBackendException as error:
        raise ActionError.of(
            "the project's own build failed",
            hint="its first errors are above, and all of its output is in the log",
        ) from error
    except BuildException as error:
        raise ActionError.of(f"the project cannot be built: {error}") from error


def _keep_libraries(overlay: Path, folder: Path) -> None:
    """Copy the shared libraries of the overlay, also those that the build made there: the wheel may need some."""
    folder.mkdir()
    for path in sorted(overlay.rglob("lib*.so*")):
        if path.is_file():
            target = folder / path.relative_to(overlay)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def run_before(runner: HookRunner, command: Sequence[str], source: Path) -> None:
    """Run one of `[build] before`'s commands in the source folder; raises ActionError when it fails."""
    print("before:", [*command], flush=True)
    try:
        runner(command, str(source))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ActionError.of(
            f"a [build] before command failed: {error}", hint=f"it was {[*command]}"
        ) from error


if __name__ == "__main__":
    entry.run(HostBuild, main)
