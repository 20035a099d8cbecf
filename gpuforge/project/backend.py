"""Reads which PEP 517 backend builds a project, and its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.utils import canonicalize_name

from gpuforge.project.files import Seen, Where
from gpuforge.project.metadata import Pyproject
from gpuforge.project.setup_script import Script
from gpuforge.requirements import parse_requirement

_SKBUILD = ("tool", "scikit-build")


@dataclass(frozen=True, slots=True)
class Backend:
    """The build backend of a project and its settings."""

    name: str  # "scikit-build-core", "scikit-build", "setuptools", or another backend's name
    where: Where
    requires: Mapping[str, Seen] = field(default_factory=dict)  # by normalized name
    cmake: str | None = None  # the folder of its CMakeLists.txt
    defined: Mapping[str, str | None] = field(
        default_factory=dict
    )  # CMake's variables that it sets; None: unknown
    py_api: Seen | None = None  # scikit-build-core's wheel.py-api


def read(table: Pyproject, script: Script) -> Backend:
    """Return the backend that pyproject.toml names, else setuptools."""
    requires: dict[str, Seen] = {}
    for seen in table.texts("build-system", "requires"):
        try:
            requires[canonicalize_name(parse_requirement(seen.text.replace("cmake (", "cmake(")).name)] = seen
        except ValueError:
            continue
    named = table.get("build-system", "build-backend")
    module = named.partition(".")[0] if isinstance(named, str) else "setuptools"
    where = table.where("build-system") if table.data else Where("setup.py")
    if module == "scikit_build_core":
        source = table.get(*_SKBUILD, "cmake", "source-dir")
        return Backend(
            "scikit-build-core",
            where,
            requires,
            cmake=source if isinstance(source, str) else "",
            defined={"SKBUILD": "2", **_defined(table)},
            py_api=next(iter(table.texts(*_SKBUILD, "wheel", "py-api")), None),
        )
    if any(each.module == "skbuild" for each in script.imports) or "scikit-build" in requires:
        return Backend("scikit-build", where, requires, cmake="", defined={"SKBUILD": "1", **_passed(script)})
    name = "setuptools" if module == "setuptools" else module.replace("_", "-")
    calls_cmake = any(re.fullmatch(r"cmake|\S*/cmake", seen.text) for seen in script.texts)
    folder = "" if calls_cmake or "cmake" in requires else None
    return Backend(name, where, requires, cmake=folder, defined=_passed(script))


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


def _passed(script: Script) -> dict[str, str | None]:
    """Return the variables that setup.py passes to CMake; whether it does so, and which value, is not known."""
    return {match[1]: None for seen in script.texts if (match := re.match(r"-D(\w+)(:\w+)?=", seen.text))}
