"""The file name of a wheel, its tags, and the lock of wheels that a step has fetched for later ones.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
"""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from gpuforge.cpython import CPython
from gpuforge.errors import ActionError
from gpuforge.requirements import Release

MACHINES = ("x86_64", "aarch64")


class WheelName(NamedTuple):
    """A wheel's file name in its parts; `python`, `abi` and `platform` may be compressed ("py2.py3")."""

    distribution: str  # as in the file name: "cufinufft_cu13"
    version: str
    build: str  # "" or the build tag with its digits first
    python: str
    abi: str
    platform: str

    @classmethod
    def parse(cls, file_name: str) -> Self:
        """Parse a file name; raises ActionError if it is not the name of a wheel."""
        try:
            parse_wheel_filename(file_name)
        except InvalidWheelFilename as error:
            raise ActionError.of(
                f"not a wheel's file name: {error}", hint="check the project's build"
            ) from error
        return cls._of(file_name.removesuffix(".whl").split("-"))

    @classmethod
    def unchecked(cls, file_name: str) -> Self | None:
        """Parse a file name whose parts may be invalid; None if their number is."""
        parts = file_name.removesuffix(".whl").split("-")
        return cls._of(parts) if len(parts) in {5, 6} else None

    @classmethod
    def _of(cls, parts: list[str]) -> Self:
        build = parts.pop(2) if len(parts) == 6 else ""
        return cls(parts[0], parts[1], build, *parts[2:])

    def __str__(self) -> str:
        return f"{self.stem}.whl"

    @property
    def stem(self) -> str:
        """Return the file name without its suffix."""
        parts = (self.distribution, self.version, self.build, self.python, self.abi, self.platform)
        return "-".join(part for part in parts if part)

    @property
    def tags(self) -> tuple[Tag, ...]:
        """Return every tag of the name, sorted."""
        return _sorted(parse_tag(f"{self.python}-{self.abi}-{self.platform}"))


class Claims(NamedTuple):
    """The parts of a wheel's file name: its normalized project, its version and its sorted tags."""

    project: str = ""
    version: str = ""
    tags: tuple[Tag, ...] = ()  # empty if it is not the name of a wheel


def of_info(folder: str) -> Release:
    """Return name and version in the name of a `.dist-info` folder, as written there."""
    name, _, version = folder.removesuffix(".dist-info").partition("-")
    return Release(name, version)


def project(file_name: str) -> str:
    """Return the normalized project in a file name; "" if it is not like the name of a wheel."""
    return claims(file_name).project


_LONGEST = 255  # characters; no file system has longer names


def claims(file_name: str) -> Claims:
    """Return the parts of a file name; of one that is not the name of a wheel, those that can be read."""
    if len(file_name) <= _LONGEST:
        # packaging's error, and int's for a number of thousands of digits
        with contextlib.suppress(ValueError):
            project, version, _, tags = parse_wheel_filename(file_name)
            return Claims(project, str(version), _sorted(tags))
    name, _, rest = file_name.removesuffix(".whl").partition("-")
    return Claims(canonicalize_name(name), rest.partition("-")[0]) if rest else Claims()


_LABEL = re.compile(r"-[0-9a-z_.]+(?=\.whl$)")


def plain_name(file_name: str) -> str:
    """Return the name of a variant wheel without the label at its end (PEP 825, a draft)."""
    return file_name if claims(file_name).tags else _LABEL.sub("", file_name)


def _sorted(tags: Iterable[Tag]) -> tuple[Tag, ...]:
    return tuple(sorted(tags, key=str))


_TAG = re.compile(r"(?:(many|musl)linux_(\d+)_(\d+)|(manylinux\d+)|linux)(?:_(\w+))?")
_LIBCS = {"many": "glibc", "musl": "musl"}
# PEP 600, "Legacy manylinux tags"
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_DIGITS = (2, 3)  # digits of the numbers in the version of a C library


class LinuxTag(NamedTuple):
    """The promise of a platform tag of Linux. Both names of one tag are equal: manylinux2014 and manylinux_2_17."""

    libc: str  # "glibc", "musl"; "" if it promises nothing: linux_x86_64
    floor: tuple[int, int]  # the oldest version of the C library: (2, 28)
    machine: str  # "x86_64"; "" if it has none: manylinux_2_28, the name of a policy

    @classmethod
    def parse(cls, tag: str) -> Self | None:
        """Parse a tag; None for another system. A version that no C library has promises nothing."""
        parts = _TAG.fullmatch(tag)
        if parts is None:
            return None
        machine = parts[5] or ""
        if parts[1] and all(len(parts[2 + n]) <= longest for n, longest in enumerate(_DIGITS)):
            return cls(_LIBCS[parts[1]], (int(parts[2]), int(parts[3])), machine)
        if parts[4] in _LEGACY:
            return cls("glibc", _LEGACY[parts[4]], machine)
        return cls("", (0, 0), machine)

    @classmethod
    def of_glibc(cls, version: str, machine: str) -> Self:
        """Return the tag of objects that need a version of glibc, "2.36"."""
        major, minor = version.split(".")[:2]
        return cls("glibc", (int(major), int(minor)), machine)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of a tag of glibc, the legacy name after the one of PEP 600."""
        policies = [
            "manylinux_{}_{}".format(*self.floor),
            *(n for n, f in _LEGACY.items() if f == self.floor),
        ]
        return tuple(f"{policy}_{self.machine}" for policy in policies)


def usable(python: CPython, platforms: Sequence[str]) -> Iterator[Tag]:
    """Yield the tags of the wheels that a CPython can use on these platforms, the most specific first."""
    yield from cpython_tags(python[:2], abis=[python.tag], platforms=platforms)
    yield from compatible_tags(python[:2], python.tag, platforms)


def serves(platform: str, machine: str) -> bool:
    """Return whether a wheel with this platform tag can be installed on Linux with glibc on such a machine."""
    tag = LinuxTag.parse(platform)
    return platform == "any" or (tag is not None and (tag.libc, tag.machine) == ("glibc", machine))


def machine_of(names: Iterable[str]) -> str:
    """Return the machine type of the first of these wheels that names one, else this machine's."""
    tags = (LinuxTag.parse(tag.platform) for name in names for tag in claims(name).tags)
    return next((tag.machine for tag in tags if tag and tag.machine in MACHINES), platform.machine())


class LockedRelease(NamedTuple):
    """A release of a project, and the sha256 of its wheel."""

    project: str
    version: Version
    sha256: str


class LockedWheels(NamedTuple):
    """The requirements, and the wheels that were fetched for them: each one's sha256 by its file name."""

    requires: tuple[str, ...]
    wheels: Mapping[str, str]

    @classmethod
    def of_folder(cls, requires: Iterable[str], folder: Path) -> LockedWheels:
        """Make it from a folder with the wheels of these requirements."""
        from gpuforge import digest  # noqa: PLC0415  audits take names apart, and hash nothing

        found = {path.name: digest.of_file(path) for path in sorted(folder.glob("*.whl"))}
        return cls(tuple(requires), found)

    def __str__(self) -> str:
        """Write it on one line of a log."""
        return f"{len(self.wheels)} wheels for: {', '.join(self.requires)}"

    def releases(self) -> tuple[LockedRelease, ...]:
        """Return the fetched releases, sorted by project."""
        return tuple(
            sorted(
                LockedRelease(*parse_wheel_filename(name)[:2], sha256) for name, sha256 in self.wheels.items()
            )
        )
