"""Reads a project's metadata and its build backend from PKG-INFO, pyproject.toml, setup.cfg or literals of setup.py."""

import configparser
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from gpuforge.manifest.positions import locate
from gpuforge.manifest.syntax import TomlError, parse
from gpuforge.project.files import Files, Seen, Where
from gpuforge.project.setup_script import Script
from gpuforge.requirements import parse_requirement
from gpuforge.wheel import metadata


@dataclass(frozen=True, slots=True)
class Metadata:
    """A project's own metadata; each field is from the first file that has it."""

    name: Seen | None
    requires_python: Seen | None
    classifiers: tuple[Seen, ...]
    requires: tuple[Seen, ...]  # Requires-Dist


class Pyproject:
    """`pyproject.toml`: its values and their places; empty if there is none or it is not TOML."""

    FILE = "pyproject.toml"

    def __init__(self, files: Files) -> None:
        """Read it."""
        self.text = files.text(self.FILE)
        try:
            self.data: Mapping[str, Any] = parse(self.text) if self.text else {}
        except TomlError:
            self.data, self.text = {}, ""

    def get(self, *keys: str) -> Any:
        """Return a value, None if it is missing."""
        value: Any = self.data
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def table(self, *keys: str) -> Mapping[str, Any]:
        """Return a table; an empty one if it is not there."""
        value = self.get(*keys)
        return value if isinstance(value, Mapping) else {}

    def texts(self, *keys: str) -> tuple[Seen, ...]:
        """Return the texts of an array, or a single text, with the place of the value."""
        value = self.get(*keys)
        items = value if isinstance(value, list) else [value]
        return tuple(Seen(item, self.where(*keys)) for item in items if isinstance(item, str))

    def where(self, *keys: str) -> Where:
        """Return the place of a value."""
        position = locate(self.text).value(keys) if self.text else None
        return Where(self.FILE, position[0] if position else 0)


# The fields in PKG-INFO, in [project], in setup.cfg, and among the arguments of `setup`.
# https://packaging.python.org/en/latest/specifications/core-metadata/
_FIELDS = (
    ("Name", "name", ("metadata", "name"), "name"),
    ("Requires-Python", "requires-python", ("options", "python_requires"), "python_requires"),
    ("Classifier", "classifiers", ("metadata", "classifiers"), "classifiers"),
    ("Requires-Dist", "dependencies", ("options", "install_requires"), "install_requires"),
)


def read(files: Files, table: Pyproject, script: Script) -> Metadata:
    """Return the metadata of PKG-INFO, else pyproject.toml, else setup.cfg, else literals of setup.py."""
    info = files.text("PKG-INFO")
    headers = metadata.parse(info.encode())
    text = files.text("setup.cfg")
    config = configparser.RawConfigParser(strict=False)
    try:
        config.read_string(text)
    except configparser.Error:
        config.clear()

    def of_info(field: str) -> Iterator[Seen]:
        at = 0
        for value in metadata.fields(headers, field):
            found = info.find(f"{field}: {value}", at)
            at = max(found, at)
            yield Seen(value, Where("PKG-INFO", info.count("\n", 0, found) + 1 if found >= 0 else 0))

    def of_config(section: str, option: str) -> Iterator[Seen]:
        at = re.search(rf"^{re.escape(option)}\s*[=:]", text, re.MULTILINE)
        where = Where("setup.cfg", text.count("\n", 0, at.start()) + 1 if at else 0)
        for line in map(str.strip, config.get(section, option, fallback="").splitlines()):
            if line and not line.startswith(("attr:", "file:")):
                yield Seen(line, where)

    name, python, classifiers, requires = (
        tuple(of_info(field))
        or table.texts("project", key)
        or tuple(of_config(*place))
        or script.arguments.get(argument, ())
        for field, key, place, argument in _FIELDS
    )
    return Metadata(next(iter(name), None), next(iter(python), None), classifiers, requires)


_SKBUILD = ("tool", "scikit-build")


@dataclass(frozen=True, slots=True)
class Backend:
    """The build backend of a project and its settings."""

    name: str  # "scikit-build-core", "scikit-build", "setuptools", or another backend's name
    where: Where
    requires: Mapping[str, Seen]  # by normalized name
    cmake: str | None  # the folder of its CMakeLists.txt
    defined: Mapping[str, str | None]  # CMake's variables that it sets; None: unknown
    py_api: Seen | None = None  # scikit-build-core's wheel.py-api


def own_backend(files: Files, table: Pyproject) -> list[str]:
    """Return the Python files of a backend that is in the project itself (PEP 517, "In-tree build backends")."""
    named = table.get("build-system", "build-backend")
    module = named.partition(":")[0].partition(".")[0] if isinstance(named, str) else ""
    folders = [posixpath.normpath(seen.text) for seen in table.texts("build-system", "backend-path")]
    places = [posixpath.normpath(posixpath.join(folder, module)) for folder in folders if module]
    return sorted(
        name
        for name in files.names
        for place in places
        if name == f"{place}.py" or (name.startswith(f"{place}/") and name.endswith(".py"))
    )


def backend(table: Pyproject, script: Script) -> Backend:
    """Return the backend that pyproject.toml names, else setuptools."""
    requires: dict[str, Seen] = {}
    for seen in table.texts("build-system", "requires"):
        with suppress(ValueError):
            requirement = parse_requirement(seen.text.replace("cmake (", "cmake("))
            requires[canonicalize_name(requirement.name)] = seen
    named = table.get("build-system", "build-backend")
    module = named.partition(".")[0] if isinstance(named, str) else "setuptools"
    where = table.where("build-system") if table.data else Where("setup.py")
    if module == "scikit_build_core":
        source = table.get(*_SKBUILD, "cmake", "source-dir")
        folder = source if isinstance(source, str) else ""
        api = next(iter(table.texts(*_SKBUILD, "wheel", "py-api")), None)
        defined = {"SKBUILD": "2", **_defined(table)}
        return Backend("scikit-build-core", where, requires, folder, defined, api)
    # setup.py passes these to CMake; whether it does so, and which value, is not known
    passed = {match[1]: None for seen in script.texts if (match := re.match(r"-D(\w+)(:\w+)?=", seen.text))}
    if any(each.module == "skbuild" for each in script.imports) or "scikit-build" in requires:
        return Backend("scikit-build", where, requires, "", {"SKBUILD": "1", **passed})
    name = "setuptools" if module == "setuptools" else module.replace("_", "-")
    calls_cmake = any(re.fullmatch(r"cmake|\S*/cmake", seen.text) for seen in script.texts)
    return Backend(name, where, requires, "" if calls_cmake or "cmake" in requires else None, passed)


def _defined(table: Pyproject) -> dict[str, str | None]:
    """Return the variables that pyproject.toml defines for CMake."""
    found: dict[str, str | None] = {}
    for keys in ((*_SKBUILD, "cmake", "define"), (*_SKBUILD, "cmake.define")):
        for name, value in table.table(*keys).items():
            text = ("OFF", "ON")[value] if isinstance(value, bool) else value
            found[name] = text if isinstance(text, str) else None
    for seen in table.texts(*_SKBUILD, "cmake", "args"):
        if match := re.match(r"-D\s*(\w+)(?::\w+)?(?:=(.*))?", seen.text):
            found[match[1]] = match[2]
    return found
