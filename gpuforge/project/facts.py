"""Collects the facts in all of a project's files."""

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gpuforge.cuda.carriers import Framework, linked_frameworks
from gpuforge.project import cibuildwheel, cmake, metadata, setup_script, sources
from gpuforge.project.cibuildwheel import Wheelbuilder
from gpuforge.project.cmake import Chosen, CMake
from gpuforge.project.files import Files, Where
from gpuforge.project.metadata import Backend, Metadata, Pyproject
from gpuforge.project.setup_script import Script
from gpuforge.project.sources import Sources

OFF = frozenset({"OFF", "FALSE", "0", "NO", ""})
_CUDA_TEXT = ("nvcc", "cuda", "cudart", "cudadevrt")
_CUDA_HEADER = r"(cuda|cu(blas|fft|rand|solver|sparse|dnn)|nv)\w*\.h"


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
    cmake_source: cmake.Source | None
    sources: Sources

    @cached_property
    def chosen(self) -> Chosen | None:
        """What the CMake files do with the options that a wheel with CUDA needs."""
        return cmake.choose(self.cmake_source, self.backend.defined) if self.cmake_source else None

    @property
    def cmake(self) -> CMake:
        """The facts in the CMake files; none of them if there are no such files."""
        return self.chosen.facts if self.chosen else CMake()

    def cmake_with(self, toolkit: str) -> CMake:
        """Return the facts in the CMake files for one toolkit; none of them if they do not use CUDA."""
        if self.cmake_source is None or self.chosen is None or not self.chosen.facts.cuda:
            return CMake()
        return self.cmake_source.read(self.chosen.defined, toolkit)

    @cached_property
    def cuda(self) -> Where | None:
        """The place where the build first uses CUDA; None if it does not."""
        uses = self.cmake.uses
        if any(not use.perhaps or self._has_cuda_code for use in uses):
            return max(uses, key=lambda use: (use.sure, use.language)).where
        if found := self.script.names.get("CUDAExtension") or self.sources.meson_cuda:
            return found
        for seen in self.script.texts:
            name = seen.text.removeprefix("-l").rpartition("/")[2]
            if name in _CUDA_TEXT or name.endswith(".cu"):
                return seen.where
        return None

    @property
    def _has_cuda_code(self) -> bool:
        """Whether sources or links of the project are CUDA's, so that a toolkit which is only looked for is used."""
        included = any(re.match(_CUDA_HEADER, seen.text) for seen in self.sources.includes)
        return bool(self.cmake.targets or included or self.sources.cuda)

    @property
    def compiles(self) -> bool:
        """Whether the build seems to compile anything."""
        texts = (self.files.text(name) for name in ("setup.py", "setup.cfg", "pyproject.toml"))
        declares = any(re.search(r"ext_modules|ext-modules|cffi_modules", text) for text in texts)
        other = self.backend.name in {"maturin", "setuptools-rust"} or self.sources.meson_compiles
        return declares or other or self.backend.cmake is not None or self.cuda is not None

    @property
    def framework(self) -> FrameworkUse | None:
        """The framework (torch) that the build links with; None if it links with none."""
        for each in linked_frameworks():
            imported = (seen.where for seen in self.script.imports if seen.module == each.package)
            found = (seen.where for seen in self.cmake.packages if seen.name == each.cmake)
            if where := next(chain(imported, found), None):
                return FrameworkUse(each, where)
        return None


def look(root: Path) -> Project:
    """Read the project in a folder."""
    files = Files(root)
    table = Pyproject(files)
    script = setup_script.read(files, metadata.own_backend(files, table))
    built = metadata.backend(table, script)
    source = cmake.Source(files, _cmake_folder(files, built, script)) if built.cmake is not None else None
    return Project(
        files=files,
        metadata=metadata.read(files, table, script),
        backend=built,
        wheelbuilder=cibuildwheel.read(files, table),
        script=script,
        cmake_source=source if source and source.top in files.names else None,
        sources=sources.read(files, meson=built.name == "mesonpy"),
    )


def _cmake_folder(files: Files, built: Backend, script: Script) -> str:
    """Return the folder of the CMakeLists.txt that is built.

    For a setup.py that calls CMake it is the folder that setup.py names, else the topmost one.
    """
    if built.cmake or built.name.startswith("scikit-build") or cmake.TOP in files.names:
        return built.cmake or ""
    found = [name for name in files.ending(cmake.TOP.lower()) if PurePosixPath(name).name == cmake.TOP]
    folders = [posixpath.dirname(name) for name in found]
    named = {posixpath.normpath(seen.text) for seen in script.texts if "/" in seen.text}
    return min(folders, key=lambda folder: (folder not in named, folder.count("/")), default="")
