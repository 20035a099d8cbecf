"""Reads the index of a kernel set: which modules it has, from which source, with which images."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from .reason import Reason
from .resolve import Image

SCHEMA = 1
FILE = "index.json"


class Refused(Exception):  # noqa: N818  a reason on its way to a candidate
    """Something of a kernel set cannot be used; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Module(NamedTuple):
    """One fatbin of a kernel set and the images in it; `source` is the path it was compiled from.

    `sha256` is "" for a file that was named without an index.
    """

    name: str
    source: str
    file: str
    sha256: str
    images: tuple[Image, ...]

    def read(self) -> bytes:
        """Return the fatbin's bytes; raises Refused when they are missing or not those indexed."""
        try:
            with open(self.file, "rb") as stream:
                data = stream.read()
        except OSError as error:
            raise Refused(_unreadable(self.file, error)) from error
        found = hashlib.sha256(data).hexdigest()
        if self.sha256 and found != self.sha256:
            raise Refused(Reason("changed", {"file": self.file, "found": found, "expected": self.sha256}))
        return data


class Index(NamedTuple):
    """What a kernel set holds and what made it: `compiler` is "nvcc 13.0.88", `toolkit` "13.0"."""

    name: str
    kind: str
    compiler: str
    toolkit: str
    modules: Mapping[str, Module]


def read_index(path: str) -> Index:
    """Read an index.json; raises Refused with a reason that names the file and what is wrong in it."""
    try:
        with open(path, encoding="utf-8") as stream:
            data = json.load(stream)
        if data["schema"] != SCHEMA:
            facts = {"file": path, "found": repr(data["schema"]), "expected": SCHEMA}
            raise Refused(Reason("other-schema", facts))
        toolkit = str(data["toolkit"])
        modules = [_module(os.path.dirname(path), entry, toolkit) for entry in data["modules"]]
        compiler = f"{data['toolchain']['family']} {data['toolchain']['version']}"
        named = {module.name: module for module in modules}
        return Index(str(data["name"]), str(data.get("kind", "module")), compiler, toolkit, named)
    except OSError as error:
        raise Refused(_unreadable(path, error)) from error
    except KeyError as error:
        raise Refused(Reason("damaged", {"file": path, "problem": f"{error} is missing in it"})) from error
    except (AttributeError, TypeError, ValueError) as error:
        raise Refused(Reason("damaged", {"file": path, "problem": str(error)})) from error


def _unreadable(path: str, error: OSError) -> Reason:
    return Reason("unreadable", {"file": path, "problem": error.strerror or str(error)})


def _module(folder: str, entry: Mapping[str, Any], toolkit: str) -> Module:
    file = str(entry["file"])
    if os.path.basename(file) != file or file in {"", ".", ".."}:
        raise ValueError(f"{file!r} is not the name of a file beside it")
    images = tuple(_image(image, toolkit) for image in entry["images"])
    place = os.path.join(folder, file)
    return Module(str(entry["name"]), str(entry["source"]), place, str(entry["sha256"]), images)


def _image(entry: Mapping[str, Any], toolkit: str) -> Image:
    kind = str(entry["kind"])
    isa = _version(entry["isa"]) if kind == "ptx" else None
    image = Image(kind, str(entry["arch"]), _version(toolkit), isa)
    if kind in {"cubin", "ptx"}:
        image.parsed  # noqa: B018  its check comes with reading, not when the image is first judged
    return image


def _version(text: Any) -> tuple[int, int]:
    major, _, rest = str(text).partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"{text!r} is not a version like 13.0")
    return int(major), int(minor)
