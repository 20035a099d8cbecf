"""Run a project's own PEP 517 build in an isolated environment, with the toolchain given by the environment."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path

from build import BuildBackendException, BuildException, ProjectBuilder

from gpuforge.errors import ActionError
from gpuforge.steps import cached_compilers, compiler_cache, entry, stable_nvcc
from gpuforge.steps.venv import Runner, adopt, runner_of


def main(arguments: list[str]) -> None:
    """Build one wheel into `--output`; compilers, toolkit and architectures come by environment variables."""
    parser = argparse.ArgumentParser(prog="host_build")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--environment", type=Path, required=True, help="that of fetch_requirements")
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--compiler", action="append", default=[], help="NAME=PATH: g++=/usr/bin/g++-12")
    parser.add_argument("--nvcc", type=Path, help="left out: the build is given no CUDA toolkit")
    parser.add_argument("--overlay", type=Path, action="append", default=[])
    parser.add_argument("--config-settings", default="{}")
    parser.add_argument("--before", default="[]")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    settings = compiler_cache.take_settings(os.environ)
    overlay = options.scratch / "overlay"
    overlay.mkdir()
    for folder in options.overlay:
        shutil.copytree(folder, overlay, dirs_exist_ok=True)
    programs = options.scratch / "bin"
    for compiler in options.compiler:
        name, _, path = compiler.partition("=")
        cached_compilers.write(Path(path), name, programs)
    if options.nvcc:
        stable_nvcc.write(options.nvcc, programs, options.scratch / "cuda")
    python = adopt(options.environment, options.python)
    options.output.mkdir()
    with compiler_cache.serving(settings, options.scratch) as variables:
        os.environ.update(variables)
        build(options, runner_of(python))


def build(options: argparse.Namespace, runner: Runner) -> None:
    """Run `[build] before`, then the project's build backend; raises ActionError when one of them fails."""
    for command in json.loads(options.before):
        run_before(runner, command, options.source)
    try:
        builder = ProjectBuilder(
            options.source, python_executable=str(options.environment / "bin/python"), runner=runner
        )
        print(
            "wheel:", builder.build("wheel", options.output, json.loads(options.config_settings)), flush=True
        )
    except BuildBackendException as error:
        raise ActionError.of(
            "the project's own build failed",
            hint="its first errors are above, and all of its output is in the log",
        ) from error
    except BuildException as error:
        raise ActionError.of(f"the project cannot be built: {error}") from error


def run_before(runner: Runner, command: list[str], source: Path) -> None:
    """Run one of `[build] before`'s commands in the source folder; raises ActionError when it fails."""
    print("before:", command, flush=True)
    try:
        runner(command, str(source))
    except (OSError, subprocess.CalledProcessError) as error:
        raise ActionError.of(f"a [build] before command failed: {error}", hint=f"it was {command}") from error


if __name__ == "__main__":
    entry.run(main)
