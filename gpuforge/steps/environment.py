"""The isolated environment of a host build: a venv filled from wheels at hand, with no index and no network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gpuforge.errors import ActionError


def create(python: Path, folder: Path) -> Path:
    """Create a venv of the interpreter `python` in `folder`, without pip in it; return its interpreter."""
    answer = subprocess.run([python, "-I", "-m", "venv", "--without-pip", folder], check=False)
    if answer.returncode:
        raise ActionError.of(
            f"{python} cannot make a virtual environment", hint="Debian: apt-get install python3-venv"
        )
    return folder / "bin" / "python"


def install(python: Path, wheels: Path) -> None:
    """Install every wheel in the folder `wheels` into the environment of `python`, from there alone."""
    files = sorted(str(path) for path in wheels.glob("*.whl"))
    if not files:
        return
    command = [
        sys.executable,
        "-m",
        "pip",
        f"--python={python}",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    answer = subprocess.run(
        [*command, "--disable-pip-version-check", "--no-compile", "--", *files], check=False
    )
    if answer.returncode:
        raise ActionError.of("the build requirements could not be installed", hint="pip's words are above")


class Runner(Protocol):
    """How `build` has a PEP 517 hook run: a command, its folder, and what is added to the environment."""

    def __call__(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        """Run it, raising subprocess.CalledProcessError when it fails."""


def runner_of(python: Path) -> Runner:
    """Return a runner that puts the programs of `python`'s environment first on PATH."""

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        environ = {**os.environ, **(extra_environ or {})}
        environ["PATH"] = os.pathsep.join([str(python.parent), environ.get("PATH", os.defpath)])
        subprocess.run(cmd, cwd=cwd, env=environ, check=True)

    return run
