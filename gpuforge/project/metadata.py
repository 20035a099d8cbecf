"""Reads a project's name, version and Pythons from PKG-INFO, pyproject.toml, setup.cfg or literals of setup.py."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuforge.manifest.positions import locate
from gpuforge.manifest.syntax import TomlError, parse
from gpuforge.project.files import Files, Lines, Seen, Where
from gpuforge.project.setup_script import Script
from gpuforge.wheel import metadata


@dataclass(frozen=True, slots=True)
class Metadata:
    """A project's own metadata."""

    name: Seen | None = None
    version: Seen | None = None
    requires_python: Seen | None = None
    classifiers: tuple[Seen, ...] = ()
    requires: tuple[Seen, ...] = ()  # Requires-Dist


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


def read(files: Files, table: Pyproject, script: Script) -> Metadata:
    """Return the metadata; each field is from the first file that has it."""
    sources = (_of_info(files), _of_table(table), _of_config(files), _of_script(script))
    return Metadata(
        name=next((each.name for each in sources if each.name), None),
        version=next((each.version for each in sources if each.version), None),
        requires_python=next((each.requires_python for each in sources if each.requires_python), None),
        classifiers=next((each.classifiers for each in sources if each.classifiers), ()),
        requires=next((each.requires for each in sources if each.requires), ()),
    )


def _of_info(files: Files) -> Metadata:
    """Read PKG-INFO: https://packaging.python.org/en/latest/specifications/core-metadata/"""
    text = files.text("PKG-INFO")
    if not text:
        return Metadata()
    headers, lines = metadata.parse(text.encode()), Lines(text)

    def of(field: str) -> Iterator[Seen]:
        start = 0
        for value in metadata.fields(headers, field):
            at = text.find(f"{field}: {value}", start)
            start = max(at, start)
            yield Seen(value, Where("PKG-INFO", lines.of(at) if at >= 0 else 0))

    return Metadata(
        next(of("Name"), None),
        next(of("Version"), None),
        next(of("Requires-Python"), None),
        tuple(of("Classifier")),
        tuple(of("Requires-Dist")),
    )


def _of_table(table: Pyproject) -> Metadata:
    def one(key: str) -> Seen | None:
        return next(iter(table.texts("project", key)), None)

    requires = table.texts("project", "dependencies")
    return Metadata(
        one("name"), one("version"), one("requires-python"), table.texts("project", "classifiers"), requires
    )


def _of_config(files: Files) -> Metadata:
    text = files.text("setup.cfg")
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return Metadata()

    def of(section: str, option: str) -> tuple[Seen, ...]:
        value = parser.get(section, option, fallback="")
        at = re.search(rf"^{re.escape(option)}\s*[=:]", text, re.MULTILINE)
        where = Where("setup.cfg", Lines(text).of(at.start()) if at else 0)
        lines = (line.strip() for line in value.splitlines())
        return tuple(Seen(line, where) for line in lines if line and not line.startswith(("attr:", "file:")))

    def one(section: str, option: str) -> Seen | None:
        return next(iter(of(section, option)), None)

    return Metadata(
        one("metadata", "name"),
        one("metadata", "version"),
        one("options", "python_requires"),
        of("metadata", "classifiers"),
        of("options", "install_requires"),
    )


def _of_script(script: Script) -> Metadata:
    arguments = script.arguments
    classifiers = arguments.get("classifiers", ())
    one = {key: values[0] for key, values in arguments.items() if values}
    return Metadata(one.get("name"), one.get("version"), one.get("python_requires"), classifiers)
