"""Reads the index of a shipped kernel set: which modules it has, from which source, with which images."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import KernelUnavailable
from .resolve import Image

SCHEMA = 1


@dataclass(frozen=True)
class Module:
    """One fatbin of a kernel set and the images in it; `source` is the path it was compiled from."""

    name: str
    source: str
    file: Path
    sha256: str
    images: tuple[Image, ...]

    def read(self) -> bytes:
        """Return the fatbin's bytes; raises KernelUnavailable when they are missing or not those indexed."""
        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise KernelUnavailable([f"{self.file}: {error.strerror or error}"]) from error
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise KernelUnavailable(
                [
                    f"{self.file}: its sha256 is {found}, and the index says {self.sha256}: "
                    "the file is damaged, install the wheel again"
                ]
            )
        return data


@dataclass(frozen=True)
class Index:
    """What a kernel set holds and what made it: `compiler` is "nvcc 13.0.88", `toolkit` "13.0"."""

    name: str
    compiler: str
    toolkit: str
    modules: Mapping[str, Module]


def read_index(path: Path) -> Index:
    """Read an index.json; raises KernelUnavailable that names the file and what is wrong in it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise KernelUnavailable(
                [f"{path}: has schema {data['schema']!r}; the runtime beside it reads {SCHEMA}"]
            )
        toolkit = str(data["toolkit"])
        modules = [_module(path.parent, entry, toolkit) for entry in data["modules"]]
        compiler = f"{data['toolchain']['family']} {data['toolchain']['version']}"
        return Index(str(data["name"]), compiler, toolkit, {module.name: module for module in modules})
    except OSError as error:
        raise KernelUnavailable([f"{path}: {error.strerror or error}"]) from error
    except KeyError as error:
        raise KernelUnavailable([f"{path}: is damaged: {error} is missing in it"]) from error
    except (TypeError, ValueError) as error:
        raise KernelUnavailable([f"{path}: is damaged: {error}"]) from error


def _module(folder: Path, entry: Mapping[str, Any], toolkit: str) -> Module:
    file = str(entry["file"])
    if Path(file).name != file:
        raise ValueError(f"{file!r} is not the name of a file beside it")
    images = tuple(_image(image, toolkit) for image in entry["images"])
    return Module(str(entry["name"]), str(entry["source"]), folder / file, str(entry["sha256"]), images)


def _image(entry: Mapping[str, Any], toolkit: str) -> Image:
    kind = str(entry["kind"])
    isa = _version(entry["isa"]) if kind == "ptx" else None
    image = Image(kind, str(entry["arch"]), _version(toolkit), isa)
    if image.loadable:
        image.parsed  # noqa: B018  its check comes with reading, not when the image is first judged
    return image


def _version(text: Any) -> tuple[int, int]:
    match = re.match(r"([0-9]+)\.([0-9]+)(?![0-9])", str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a version like 13.0")
    return int(match[1]), int(match[2])
