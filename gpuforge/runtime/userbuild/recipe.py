"""Reads the recipe of a user-compiled object: its sources, and the toolchains to try in order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import document
from ..candidates import demanded
from ..reason import Reason
from .outcome import MISSING, Stopped

SCHEMA = 1


@dataclass(frozen=True)
class Toolchain:
    """How one toolchain is found here, and how it compiles; see `gpuforge.package.source_set.Recipe`."""

    name: str
    family: str
    version: str
    accepts: tuple[tuple[str, tuple[int, ...]], ...]
    path: str
    programs: str
    answers: str
    places: tuple[str, ...]
    argv: tuple[str, ...]
    product: str
    offload: str
    runtimes: tuple[str, ...]
    install: Mapping[str, str]
    makes: str = "library"
    sources: tuple[str, ...] = ()  # in a set of modules: those that are its own
    devices: tuple[str, ...] = ()  # the kinds of OpenCL's devices that it compiles for
    extensions: tuple[str, ...] = ()  # of OpenCL, that a device must have


@dataclass(frozen=True)
class Recipe:
    """A user-compiled object: `folder` holds its files, `sources` are those that the compiler is given."""

    name: str
    folder: Path
    abi: str  # the id that each library gets here
    fallbacks: tuple[str, ...]
    sources: tuple[str, ...]
    includes: tuple[str, ...]
    toolchains: tuple[Toolchain, ...]
    kind: str = "library"  # or "module"
    digests: Mapping[str, str] = field(default_factory=dict)  # sha256 of each source and header


def recipes(home: Path) -> list[Recipe]:
    """Return the recipes of a package, by name; raises Stopped for one that cannot be read."""
    return [_read(file) for file in sorted((home / "sources").glob("*/recipe.json"))]


def _read(file: Path) -> Recipe:
    try:
        data = document.read(str(file))
        if data["schema"] != SCHEMA:
            raise Stopped(f"{file} has schema {data['schema']!r}, and this runtime reads {SCHEMA}")
        folder = file.parent
        return Recipe(
            name=str(data["name"]),
            folder=folder,
            abi=_abi(data),
            fallbacks=tuple(map(str, data["fallbacks"])),
            sources=tuple(_checked(folder, entry) for entry in data["sources"]),
            includes=tuple(_checked(folder, entry) for entry in data["includes"]),
            toolchains=tuple(_toolchain(entry) for entry in data["toolchains"]),
            kind=str(data["kind"]),
            digests={
                str(each["file"]): str(each["sha256"]) for each in (*data["sources"], *data["includes"])
            },
        )
    except OSError as error:
        raise Stopped(f"{error.filename or file}: {error.strerror or error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Stopped(f"{file} is damaged ({error}): install the wheel again") from error


def _abi(data: dict[str, Any]) -> str:
    found = demanded(data)
    if isinstance(found, Reason):
        raise Stopped(f"{data['name']}: {found}: install it first", MISSING)
    return found


def _checked(folder: Path, entry: Mapping[str, Any]) -> str:
    name = str(entry["file"])
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{name!r} leads out of its folder")
    verify(folder / name, folder / name, str(entry["sha256"]))
    return name


def verify(file: Path, original: Path, sha256: str) -> None:
    """Raise Stopped unless a file of the wheel, or a copy of it, is as it was packaged; raises OSError."""
    with document.open_file(file) as stream:
        if hashlib.sha256(stream.read()).hexdigest() == sha256:
            return
    raise Stopped(
        f"{original} was changed after it was installed: install the wheel again, and give sources of "
        "your own as arguments"
    )


def _toolchain(entry: Mapping[str, Any]) -> Toolchain:
    def text(key: str) -> str:
        return str(entry[key] or "")

    def words(key: str) -> tuple[str, ...]:
        return tuple(map(str, entry[key]))

    def added(key: str) -> tuple[str, ...]:  # since the first wheels of this schema
        return words(key) if key in entry else ()

    return Toolchain(
        name=text("name"),
        family=text("family"),
        version=text("version"),
        accepts=tuple((str(operator), tuple(map(int, numbers))) for operator, numbers in entry["accepts"]),
        path=text("path"),
        programs=text("programs"),
        answers=text("answers"),
        places=words("places"),
        argv=words("argv"),
        product=text("product"),
        offload=text("offload"),
        runtimes=words("runtimes"),
        install={str(key): str(value) for key, value in entry["install"].items()},
        makes=text("makes"),
        sources=words("sources"),
        devices=added("devices"),
        extensions=added("extensions"),
    )
