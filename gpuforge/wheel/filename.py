"""The file name of a wheel.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from gpuforge.errors import ActionError
from gpuforge.release import Release


@dataclass(frozen=True, slots=True)
class WheelName:
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
        with contextlib.suppress(
            ValueError
        ):  # packaging's error, and int's for a number of thousands of digits
            project, version, _, tags = parse_wheel_filename(file_name)
            return Claims(project, str(version), _sorted(tags))
    name, _, rest = file_name.removesuffix(".whl").partition("-")
    return Claims(canonicalize_name(name), rest.partition("-")[0]) if rest else Claims()


def _sorted(tags: Iterable[Tag]) -> tuple[Tag, ...]:
    return tuple(sorted(tags, key=str))
