"""gpuforge itself as an input of its own steps: the code and packages that an output depends on."""

import os
import platform
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from gpuforge import digest
from gpuforge.package import contents
from gpuforge.plan.action import FileInput, Handle, ImageInput, Program, Step
from gpuforge.toolchains import cpython, detect
from gpuforge.toolchains.cpython import Interpreter
from gpuforge.toolkits.providers import system

_ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = contents.SUFFIXES | {".toml", ".json", ".sh"}  # of the files that outputs depend on
# The imports of a module of gpuforge, also those within functions, and the names of files beside it or in its `data`. A
# test holds that these patterns find what Python's parser finds; they are 20 times as fast, as each begins with a text.
_IMPORT = re.compile(
    r"\n[ \t]*(?:from (gpuforge[\w.]*|\.[\w.]*) import (\([^)]*\)|.*)|import (gpuforge[\w.]*))"
)
# The module of a step imports at its top also what its decisions need, of these folders. What its work needs of them is
# imported where it works.
_OF_STEP = re.compile(r"\nclass \w+\(\w*Step\[P\]\)")
_PLANNING = re.compile(
    r"\nfrom gpuforge\.(?:actions|manifest|plan|toolchains|toolkits)\b[\w.]* import (?:\([^)]*\)|.*)"
)
_FILE = re.compile(r"\"([\w.-]+\.(?:toml|json|sh|py|c|h))\"")
IN_IMAGE = PurePosixPath(
    "/opt/gpuforge"
)  # where a container finds gpuforge: an environment of an image's Python
_IMAGES_PYTHON, _PYTHON = IN_IMAGE / "bin" / "python", Path(sys.executable)


def of_step(step: Step[Handle], python: Interpreter | None) -> FileInput | ImageInput:
    """Return this gpuforge as an input of a step: an interpreter by path, the step's own code by content.

    It is this process's interpreter or, in a container, one of its image (`python`).
    """
    versions = tuple(f"{name} {_version(name)}" for name in step.packages)
    if step.writes_wheel:
        here = (platform.python_version(), zlib.ZLIB_RUNTIME_VERSION)
        versions += ("Python {} zlib {}".format(*((python.version, python.zlib) if python else here)),)
    identity = _identity(step.__module__, step.copied, step.code(), versions)
    return (
        ImageInput(_IMAGES_PYTHON, identity) if python else FileInput(_PYTHON, identity, program="gpuforge")
    )


@cache
def _identity(module: str, copied: tuple[str, ...], more: tuple[str, ...], versions: tuple[str, ...]) -> str:
    code = digest.of_data([[file, _digest(file)] for file in files_of(module, copied, more)])
    return f"gpuforge {digest.of_data([code, versions])}"


@cache
def _content(file: str) -> bytes:
    return (_ROOT / file).read_bytes()


@cache
def _digest(file: str) -> str:
    return digest.of_bytes(_content(file))


def files_of(module: str, copied: Iterable[str] = (), more: Iterable[str] = ()) -> list[str]:
    """Return the files of gpuforge, relative to its folder, that a step's output depends on.

    They are its module, with all that this imports for its work, `more` modules, and the folders that it copies, which
    import nothing else.
    """
    todo = [f"{name.partition('.')[2].replace('.', '/')}.py" for name in (module, *more)]
    found = {file for folder in copied for file in _files() if file.startswith(f"{folder}/")}
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += read_by(file)
    return sorted(found)


@cache
def _version(package: str) -> str:
    return version(package)


def modules_of(step: type[Step[Any]]) -> list[str]:
    """Return the module of a step, and those that it imports for its work."""
    file = f"{step.__module__.partition('.')[2].replace('.', '/')}.py"
    found = (
        name.removesuffix(".py").removesuffix("/__init__") for name in read_by(file) if name.endswith(".py")
    )
    return [step.__module__, *sorted(f"gpuforge.{name.replace('/', '.')}" for name in found)]


@cache
def read_by(file: str) -> frozenset[str]:
    """Return the files of gpuforge that one of its files imports when it runs, and the tables that it reads.

    The tables of `toolkits` are read when a plan is made: a step gets what it needs of them by its fields.
    """
    if not file.endswith(".py"):
        return frozenset()
    text = contents.FOR_TYPES.sub("", "\n" + _content(file).decode())
    if _OF_STEP.search(text):
        text = _PLANNING.sub("", text)
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
    return frozenset(name[len(f"{_ROOT}/") :] for name in found if os.path.splitext(name)[1] in SUFFIXES)  # noqa: PTH122  fast


def identities(kind: Program, path: Path) -> frozenset[str]:
    """Return the identities, as keys have them, of the program at a path of this machine; none without one."""
    return _ASK[kind](path)


def _interpreter_at(path: Path) -> frozenset[str]:
    found = cpython.ask(path)
    return frozenset({found.identity} if found else ())


def _toolkit_at(path: Path) -> frozenset[str]:
    return frozenset(each.identity for each in system.installed([path]))


_ASK: Mapping[Program, Callable[[Path], frozenset[str]]] = {
    "compiler": detect.identities,
    "interpreter": _interpreter_at,
    "toolkit": _toolkit_at,
}
