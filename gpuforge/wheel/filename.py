"""The file name of a wheel.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-name-convention
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Self

from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from gpuforge.errors import ActionError


@dataclass(frozen=True, slots=True)
class WheelName:
    """A wheel's file name in its parts; `python`, `abi` and `platform` may be compressed ("py2.py3")."""

    distribution: str  # as it stands in the file name: "cufinufft_cu13"
    version: str
    build: str  # "" or the build tag with its digits first
    python: str
    abi: str
    platform: str

    @classmethod
    def parse(cls, file_name: str) -> Self:
        """Take a file name apart; raises ActionError when it is not the name of a wheel."""
        try:
            parse_wheel_filename(file_name)
        except InvalidWheelFilename as error:
            raise ActionError.of(
                f"not a wheel's file name: {error}", hint="check the project's build"
            ) from error
        parts = file_name.removesuffix(".whl").split("-")
        build = parts.pop(2) if len(parts) == 6 else ""
        return cls(parts[0], parts[1], build, *parts[2:])

    def __str__(self) -> str:
        parts = (self.distribution, self.version, self.build, self.python, self.abi, self.platform)
        return "-".join(part for part in parts if part) + ".whl"

    @property
    def tags(self) -> tuple[str, ...]:
        """Return every tag that the name stands for, sorted."""
        return tuple(sorted(str(tag) for tag in self.parsed))

    @property
    def parsed(self) -> frozenset[Tag]:
        """Return every tag that the name stands for."""
        return parse_tag(f"{self.python}-{self.abi}-{self.platform}")


def of_info(folder: str) -> tuple[str, str]:
    """Return name and version in the name of a `.dist-info` folder, as they stand there."""
    name, _, version = folder.removesuffix(".dist-info").partition("-")
    return name, version


def project(file_name: str) -> str:
    """Return the normalized project in a file name; "" when it is not like the name of a wheel."""
    return claims(file_name)[0]


_LONGEST = 255  # characters; no file system has longer names


def claims(file_name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return project, version and sorted tags in a file name; no tags when it is not the name of a wheel."""
    if len(file_name) <= _LONGEST:
        with contextlib.suppress(
            ValueError
        ):  # packaging's own, and int's for a number of thousands of digits
            project, version, _, tags = parse_wheel_filename(file_name)
            return project, str(version), tuple(sorted(map(str, tags)))
    name, _, rest = file_name.removesuffix(".whl").partition("-")
    return (canonicalize_name(name), rest.partition("-")[0], ()) if rest else ("", "", ())
