"""What is judged, and why: the images of a build, its origin, the index that lists them, and each reason."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Optional, Union

from . import document
from .arch import Arch, Version
from .process import printable
from .signature import Entry, Parameter, matching, plain_entry

SENTENCES = {
    # accepted
    "exact": "built for this very architecture",
    "same-major": "built for {built}, whose code {here} runs too",
    "jit": "the driver compiles it for {here} when it is first loaded",
    "unread": "set by {variable}; not checked against this machine",
    "own-code": "the package's own code; this set has no library for the CPU",
    # refused: the image
    "alone": "runs on {built} alone; this device is {here}",
    "family": "runs on the family of {built} alone; this device is {here}",
    "embedded": "runs on {built} alone, as embedded GPUs share no binaries; this device is {here}",
    "same-major-only": "runs on {major}.x from {built}; this device is {here}",
    "newer": "is for {built} and newer; this device is {here}",
    "driver-older-than-ptx": "PTX {isa} needs a driver for CUDA {needed} or newer; this one is for {found}",
    "driver-older-than-code": (
        "code of CUDA {toolkit} needs a driver for CUDA {needed} or newer; this one is for {found}"
    ),
    "not-loadable": "only a cubin or PTX can be loaded",
    "part-left-out": "the runtime in this wheel cannot load it: it has only the parts that the wheel's kernels need",
    # refused: the build
    "unreadable": "{file}: {problem}",
    "damaged": "{file}: is damaged: {problem}",
    "changed": "{file}: its sha256 is {found} instead of {expected}: the file is damaged, {again}",
    "other-schema": "{file}: has schema {found}; the runtime beside it reads {expected}",
    "is-library": "{file}: lists a kernel library, which KernelLibrary opens (in C: gpuforge_open_library)",
    "no-set": "this wheel has no kernel set '{name}'",
    "no-module": "kernel set {set} has no module '{name}'; it has: {known}",
    "several-modules": "kernel set {set} has several modules: name one of {known}",
    "not-kernels": (
        "{variable} names {file}, which is neither a folder with an index.json nor a .fatbin, .cubin, .ptx or .so file"
    ),
    # a library
    "other-owner": "{path} belongs to another user, who could put code into it",
    "open-to-others": "{path} can be written by other users (chmod o-w {path})",
    "driver-error": "{message}",
    "not-loaded": "kernel {kernel}: {message}",
    "no-such-kernel": "has no kernel {kernel}: {problem}",
    # refused: what would compile a source here
    "relative-path": "{variable}={value}: expected an absolute path",
    # refused: the machine
    "switched-off": "switched off ({variable}={value})",
    "no-usable-gpu": "no usable NVIDIA GPU",
    "no-devices": "the driver sees no GPU",
    "elsewhere": "does not run {where}, as requested",
    "no-such-device": "there is no device {device}: the driver sees {count}",
    "no-library": "no {what} ({problem})",
    "not-the-library": "{library} cannot be used as the {what}: {problem}",
    "library-too-old": "{library} is for {what} {found}; this runtime needs {needed} or newer",
    "no-answer": "the {what} did not answer within {seconds} seconds: {advice}",
    "forked": "this process was forked after its parent used the GPU; start workers with 'spawn'",
}


# Accepted, but code for a GPU that the CPU runs comes after code for the CPU.
LAST = frozenset({"iree-software"})


class Reason(NamedTuple):
    kind: str
    facts: Mapping[str, object] = {}

    def __str__(self) -> str:
        sentence = SENTENCES.get(self.kind)
        if sentence is None:
            from .more_reasons import SENTENCES as MORE
            from .more_reasons import WITHOUT

            without = WITHOUT.get(self.kind) if "" in self.facts.values() else None
            sentence = without or MORE[self.kind]
        return printable(sentence.format(**self.facts))

    def as_data(self) -> dict[str, object]:
        """Return the reason as JSON has it: its kind, its facts, and the sentence for people."""
        return {"kind": self.kind, **self.facts, "text": str(self)}


class Verdict(NamedTuple):
    accepted: bool
    reason: Reason

    @classmethod
    def of(cls, refusal: Optional[Reason], merit: Reason) -> Verdict:
        return cls(refusal is None, refusal or merit)


def dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


class Refused(Exception):  # noqa: N818  a reason on its way to a candidate
    """A part of a kernel set cannot be used; `reason` is the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Origin(IntEnum):
    """The origin of a build, in the order in which builds are tried."""

    EXPLICIT = 0  # named by a variable of the environment
    USER_BUILD = 1  # compiled by `python -m PACKAGE._gpuforge compile`
    CACHED_BUILD = 2  # sources in the wheel, compiled by NVRTC at first use
    SHIPPED = 3  # in the wheel
    OPENCL = 4  # the same, compiled by an OpenCL device's driver
    CPU = 5  # a library in the wheel, or the caller's own code

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = ("environment", "user build", "cached build", "shipped", "OpenCL", "CPU")


class ImageKind(NamedTuple):
    """A kind of image.

    `loader` makes kernels of it, "" if it cannot be loaded without a further step. `built_for` is the kind of its
    target: "GPU" (an architecture), "CPU" (a level), or "" (any device of its loader). Without `of_module` it is not in
    the index of a set of modules. With `of_toolkit` the index has the version of a CUDA toolkit that made it.
    """

    label: str  # its name for people
    loader: str = ""
    built_for: str = ""
    has_ptx: bool = False
    iree_driver: str = ""
    of_module: bool = True
    of_toolkit: bool = True


KINDS = {
    "cubin": ImageKind("cubin", "CUDA", "GPU"),
    "ptx": ImageKind("PTX", "CUDA", "GPU", has_ptx=True),
    "iree-cuda": ImageKind("IREE cuda", "IREE", "GPU", has_ptx=True, iree_driver="cuda", of_toolkit=False),
    "iree-vulkan": ImageKind("IREE vulkan", "IREE", iree_driver="vulkan", of_toolkit=False),
    "iree-cpu": ImageKind("IREE CPU", "IREE", "CPU", iree_driver="local-task", of_toolkit=False),
    # a file that an environment variable names, and sources
    "unread": ImageKind("file", "CUDA", of_module=False),
    "cuda": ImageKind("CUDA source", "NVRTC", of_module=False),
    "opencl": ImageKind("source", "OpenCL", of_module=False),
    "library": ImageKind("library", "system", "CPU", of_module=False, of_toolkit=False),
}


def kind_of(name: str) -> ImageKind:
    """Return the kind with a name in an index; an unknown one, such as "lto-ir", has no loader."""
    return KINDS.get(name) or ImageKind(name)


class Image(NamedTuple):
    """One image of a file.

    `built_for` is an architecture, else the text of the index: a level of CPUs. `toolkit` is the CUDA version of the
    compiler, `isa` the PTX ISA. `variable` of the environment names a file of the kind "unread".
    """

    kind: str
    built_for: Union[Arch, str] = ""
    toolkit: Version = (0, 0)
    isa: Optional[Version] = None
    variable: str = ""

    @property
    def about(self) -> ImageKind:
        return kind_of(self.kind)

    @property
    def label(self) -> str:
        built_for = self.built_for if isinstance(self.built_for, str) else self.built_for.of_image(self.kind)
        return f"{self.about.label} {built_for}".rstrip()


class Build(NamedTuple):
    """One build of a module: its origin, the file (or its folder), and its images.

    `problem` is why it cannot be used at all, `failure` the driver's reason when it was last tried. A shipped library
    has `name`, the object that it was made for, and `compiler`.
    """

    origin: Origin
    place: str
    images: tuple[Image, ...] = ()
    problem: Optional[Reason] = None
    failure: Optional[Reason] = None
    wheel: str = ""  # the kernels wheel that it is in; "" for the package's own
    name: str = ""
    compiler: str = ""


CPU = Build(Origin.CPU, "")


class Candidate(NamedTuple):
    """One way to run a kernel: an image of a build, None for the CPU, accepted or refused, with the reason."""

    build: Build
    image: Optional[Image]
    accepted: bool
    reason: Reason

    @property
    def origin(self) -> Origin:
        return self.build.origin

    @property
    def label(self) -> str:
        if self.origin is Origin.SHIPPED:
            return " of ".join(filter(None, (self.shipped_image or self.origin.label, self.build.wheel)))
        return f"{self.origin.label} {self.image.label if self.image else ''}".rstrip()

    @property
    def shipped_image(self) -> str:
        """The image of a shipped build, for people; "" for the only library, or without an image."""
        image = self.image.label if self.image else ""
        return f"{self.build.name} {image}".lstrip() if image not in {"", "library"} else ""


SCHEMA = 1
LONGEST_ARCH = 16  # characters
INSTALL_AGAIN = "install the wheel again"


class Module(NamedTuple):
    """One file of a kernel set and the images in it; `source` is the path it was compiled from.

    `sha256` is "" for a file without an index. Without `kernels` it is not known which it has. `again` is what the
    user does if the file is damaged.
    """

    name: str
    source: str
    file: str
    sha256: str
    images: tuple[Image, ...]
    kernels: tuple[Entry, ...] = ()
    again: str = INSTALL_AGAIN

    def read(self) -> bytes:
        try:
            with document.open_file(self.file) as stream:
                data = stream.read()
        except OSError as error:
            raise Refused(unreadable(self.file, error)) from error
        found = hashlib.sha256(data).hexdigest()
        if self.sha256 and found != self.sha256:
            raise Refused(changed(self.file, found, self.sha256, self.again))
        return data


class CompiledBy(NamedTuple):
    """The compiler of a kernel set's modules."""

    family: str  # "nvcc"
    version: str | None = None  # "13.0.88"; None for sources, which are compiled on the user's machine

    @property
    def label(self) -> str:
        return self.family if self.version is None else f"{self.family} {self.version}"


class Index(NamedTuple):
    """The content of a kernel set. A module has one file, or several, of which the first that runs here is used.

    `cpu` is the library that does its work without a GPU, "" for none.
    """

    name: str
    compiler: CompiledBy
    toolkit: str
    modules: Mapping[str, tuple[Module, ...]]
    cpu: str = ""
    install: str = ""  # the command to install the Python package that runs its modules


def read_index(path: str) -> Index:
    try:
        data = document.read(path)
        schema = document.whole(data, "schema")
        if schema != SCHEMA:
            raise Refused(other_schema(path, schema, SCHEMA))
        if document.text(data, "kind", "module") == "library":
            raise Refused(Reason("is-library", {"file": path}))
        return index_of(os.path.dirname(path), data)
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except document.Damaged as error:
        raise Refused(damaged(path, error)) from error


def index_of(folder: str, data: dict[str, Any]) -> Index:
    toolkit = document.text(data, "toolkit")
    named: dict[str, tuple[Module, ...]] = {}
    for entry in document.tables(data, "modules"):
        module = _module(folder, entry, toolkit)
        named[module.name] = (*named.get(module.name, ()), module)
    name = document.text(data, "name")
    cpu, install = document.file_name(data, "cpu", ""), document.text(data, "install", "")
    return Index(name, made_by(data), toolkit, named, cpu, install)


def other_schema(path: str, found: int, expected: int) -> Reason:
    return Reason("other-schema", {"file": path, "found": found, "expected": expected})


def changed(file: str, found: str, expected: str, again: str) -> Reason:
    return Reason("changed", {"file": file, "found": found, "expected": expected, "again": again})


def unreadable(path: str, error: OSError) -> Reason:
    return Reason("unreadable", {"file": path, "problem": error.strerror or str(error)})


def damaged(path: str, error: document.Damaged) -> Reason:
    return Reason("damaged", {"file": path, "problem": str(error)})


def made_by(data: dict[str, Any]) -> CompiledBy:
    toolchain = document.table(data, "toolchain")
    return CompiledBy(document.text(toolchain, "family"), document.text(toolchain, "version"))


def _module(folder: str, entry: dict[str, Any], toolkit: str) -> Module:
    file = document.file_name(entry, "file")
    images = tuple(image_of(each, toolkit) for each in document.tables(entry, "images"))
    for each in images:
        if (
            not each.about.of_module
        ):  # not an image of a fatbin: a kind that the runtime gives files without an index
            raise document.Damaged(f"'{each.kind}' is not the kind of an image")
    name, source = document.text(entry, "name"), document.text(entry, "source")
    sha256 = document.text(entry, "sha256")
    if not sha256:
        raise document.Damaged("'sha256' is empty")
    kernels = tuple(map(_kernel, document.tables(entry, "kernels")))
    again = document.text(entry, "again", INSTALL_AGAIN)
    return Module(name, source, os.path.join(folder, file), sha256, images, kernels, again)


def _kernel(entry: dict[str, Any]) -> Entry:
    symbol, name = document.text(entry, "symbol"), document.text(entry, "name")
    parameters = document.tables(entry, "parameters")
    return Entry(
        symbol,
        name,
        tuple(Parameter(document.text(each, "type"), document.whole(each, "size")) for each in parameters),
    )


def image_of(entry: dict[str, Any], toolkit: str) -> Image:
    kind, arch = document.text(entry, "kind"), document.text(entry, "arch")
    about = kind_of(kind)
    isa = _version(document.text(entry, "isa")) if about.has_ptx else None
    alone = not about.of_toolkit or (about.has_ptx and not toolkit)  # made without a CUDA toolkit
    version = (0, 0) if alone else _version(toolkit)
    return Image(kind, built_for(about.built_for, arch), version, isa)


def built_for(what: str, text: str) -> Arch | str:
    if what != "GPU":
        return text
    with contextlib.suppress(ValueError):
        if len(text) <= LONGEST_ARCH:
            return Arch.parse(text)
    raise document.Damaged(f"'{text}' is not a GPU architecture")


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.|\Z)", text)
    if found is None:
        raise document.Damaged(f"'{text}' is not a version like 13.0")
    return int(found[1]), int(found[2])


class KernelName(NamedTuple):
    """A kernel that a caller names; without `entry` some image of the module has no list of its kernels."""

    module: str
    name: str
    entry: Entry | None
    message: str = ""

    def entries(self, module: Module, origin: Origin) -> tuple[Entry, ...]:
        """Return the entries to look up in a module's file, one after the other; none if its list does not have the
        kernel.

        A file without a list may have it by its symbol, or by the name as given. If it is the user's own, its
        parameters are not known.
        """
        if module.kernels:
            same = [each for each in module.kernels if self.entry and each.symbol == self.entry.symbol]
            return tuple(same) or matching(module.kernels, self.name)[:1]
        if self.entry is None:
            return (plain_entry(self.name),)
        parameters = None if origin <= Origin.USER_BUILD else self.entry.parameters
        symbols = dict.fromkeys((self.entry.symbol, self.name))
        return tuple(Entry(symbol, self.entry.name, parameters) for symbol in symbols)


class BuildPlace(NamedTuple):
    """One place with a build of a set: its contents, or one file for any module, or its problem."""

    origin: Origin
    path: str
    contents: Index | None = None
    file: str = ""
    image: Image = Image("unread")
    problem: Reason | None = None
    wheel: str = ""  # the kernels wheel that it is in, such as "saxpy-kernels-cu13"
    sources: Any = None  # `recipe.Sources`

    @property
    def images(self) -> tuple[Image, ...]:
        if self.contents is None:
            return (self.image,) if self.file else ()
        return tuple(
            image for files in self.contents.modules.values() for file in files for image in file.images
        )

    def files(self, name: str) -> tuple[Module, ...]:
        """Return the files of a module; a named file is for any module."""
        if self.file:
            return (Module(name, "", self.file, "", (self.image,)),)
        return self.contents.modules.get(name, ()) if self.contents else ()

    def builds(self, name: str, *, read: bool = False) -> tuple[Build, ...]:
        """Return the builds of a module for `resolve`; with `read` each file is read and compared with the index."""
        if self.problem or (self.contents is None and not self.file):
            return (Build(self.origin, self.path, problem=self.problem, wheel=self.wheel),)
        files = self.files(name)
        if not files:
            known = ", ".join(sorted(self.contents.modules if self.contents else ())) or "none"
            facts = {"set": self.path, "name": name, "known": known}
            return (Build(self.origin, self.path, problem=Reason("no-module", facts), wheel=self.wheel),)
        return tuple(
            Build(
                self.origin,
                file.file,
                file.images,
                problem=_trouble(file) if read else None,
                wheel=self.wheel,
            )
            for file in files
        )


def place_in(origin: Origin, folder: str) -> BuildPlace:
    try:
        return BuildPlace(origin, folder, contents=read_index(os.path.join(folder, "index.json")))
    except Refused as refused:
        return BuildPlace(origin, folder, problem=refused.reason)


def _trouble(module: Module) -> Reason | None:
    try:
        module.read()
    except Refused as refused:
        return refused.reason
    return None
