"""Compile what is written in C when the package is built or installed; without a compiler it is left out.

Each compiled module has a twin in Python that does the same, so nothing is missing then but speed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("gpuforge", "binary", "_find.c")
FLAGS = ["-O3", "-fPIC", "-shared"]


class Compile(BuildHookInterface):
    """Puts the module beside its source, for Python's stable ABI: one file serves every version from 3.11 on."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected; the wheel is tagged for this platform then."""
        if self.target_name != "wheel" or os.name != "posix":
            return
        source = Path(self.root, SOURCE)
        target = source.with_suffix(".abi3.so")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        headers = f"-I{sysconfig.get_path('include')}"
        try:
            subprocess.run([*compiler, *FLAGS, headers, str(source), "-o", str(target)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            target.unlink(missing_ok=True)
            self.app.display_warning(f"{SOURCE} is not compiled, Python does its work: {error}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(target.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
