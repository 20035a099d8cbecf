"""An environment that several projects share, and that none of their code may change."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gpuforge.steps import private_mounts
from gpuforge.steps.venv import adopt


def protected(environment: Path, python: Path, scratch: Path) -> Path:
    """Return the interpreter of an environment for a project that cannot change the one that others share.

    It is the shared environment itself, read-only, as in a container. If the system does not allow this, or the
    environment was made for the same Python at another path, it is a copy.
    """
    own = environment / "bin" / "python"
    if own.readlink() == python:
        if not os.access(environment, os.W_OK):
            return own
        with suppress(OSError):
            if private_mounts.enter():
                private_mounts.protect(environment)
                return own
    return adopt(Path(shutil.copytree(environment.resolve(), scratch / "env", symlinks=True)), python)
