"""Collects the facts in all of a project's files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpuforge.cuda.frameworks import Framework, linked
from gpuforge.project import backend, cmake, metadata, setup_script, sources
from gpuforge.project.backend import Backend, Wheelbuilder
from gpuforge.project.cmake import CMake, Use
from gpuforge.project.files import Files, Where
from gpuforge.project.metadata import Metadata
from gpuforge.project.setup_script import Script
from gpuforge.project.sources import Sources

OFF = frozenset({"OFF", "FALSE", "0", "NO", ""})
_ASKS = r"CUDA|GPU"  # in the names of options
_ASIDE = r"TEST|EXAMPLE|BENCH|DOC"
_CUDA_TEXT = ("nvcc", "cuda", "cudart", "cudadevrt")


class FrameworkUse(NamedTuple):
    """A framework that a build links with, and the place of its first use."""

    framework: Framework
    where: Where


@dataclass(frozen=True)
class Project:
    """The facts in the files of a project."""

    files: Files
    metadata: Metadata
    backend: Backend
    wheelbuilder: Wheelbuilder
    script: Script
    cmake: CMake | None
    sources: Sources

    @property
    def cuda(self) -> Where | None:
        """The place where the build first uses CUDA; None if it does not."""
        if self.cmake and self.cmake.uses:
            return min(self.cmake.uses, key=lambda use: "!" in use.options).where
        if "CUDAExtension" in self.script.calls:
            return self.script.calls["CUDAExtension"]
        for seen in self.script.texts:
            name = seen.text.removeprefix("-l").rpartition("/")[2]
            if name in _CUDA_TEXT or name.endswith(".cu"):
                return seen.where
        return None

    @property
    def compiles(self) -> bool:
        """Whether the build seems to compile anything."""
        texts = (self.files.text(name) for name in ("setup.py", "setup.cfg", "pyproject.toml", "meson.build"))
        declares = any(
            re.search(r"ext_modules|ext-modules|extension_module|cffi_modules", text) for text in texts
        )
        return declares or self.cmake is not None or self.cuda is not None

    def is_off(self, option: str) -> bool:
        """Return whether an option of CMake is off by default."""
        if self.cmake is None or option not in self.cmake.options:
            return False
        decided = option in self.backend.defined or option in self.cmake.set
        return self.cmake.options[option].text in OFF and not decided

    @cached_property
    def switched(self) -> dict[str, Use]:
        """Return the CMake options that are off and without which CUDA is not used, with their first such use."""
        found: dict[str, Use] = {}
        for use in self.cmake.uses if self.cmake else ():
            for option in use.options:
                if not self.is_off(option) or re.search(_ASIDE, option):
                    continue
                if "!" not in use.options or re.search(_ASKS, option):
                    found.setdefault(option, use)
        return found

    def runs(self, options: Iterable[str]) -> bool:
        """Return whether a command that needs these CMake options may run when CUDA is used."""
        return not any(self.is_off(option) and option not in self.switched for option in options)

    @property
    def framework(self) -> FrameworkUse | None:
        """The framework (torch) that the build links with; None if it links with none."""
        for each in linked():
            imported = (seen.where for seen in self.script.imports if seen.module == each.package)
            packages = self.cmake.packages if self.cmake else []
            found = (seen.where for seen in packages if seen.text == each.cmake)
            if where := next(chain(imported, found), None):
                return FrameworkUse(each, where)
        return None


def look(root: Path) -> Project:
    """Read the project in a folder."""
    files = Files(root)
    script = setup_script.read(files)
    table = metadata.Pyproject(files)
    built = backend.read(table, script)
    return Project(
        files=files,
        metadata=metadata.read(files, table, script),
        backend=built,
        wheelbuilder=backend.wheelbuilder(table),
        script=script,
        cmake=cmake.read(files, _cmake_folder(files, built)) if built.cmake is not None else None,
        sources=sources.read(files),
    )


def _cmake_folder(files: Files, built: Backend) -> str:
    """Return the folder of the CMakeLists.txt that is built: for a setup.py that calls CMake, the topmost one."""
    if built.cmake or built.name.startswith("scikit-build") or cmake.TOP in files.names:
        return built.cmake or ""
    found = [name for name in files.ending(cmake.TOP.lower()) if PurePosixPath(name).name == cmake.TOP]
    return posixpath.dirname(min(found, key=lambda name: name.count("/"), default=""))
