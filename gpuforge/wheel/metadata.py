"""METADATA: its fields and its requirements.

https://packaging.python.org/en/latest/specifications/core-metadata/
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from gpuforge import requirement_text
from gpuforge.errors import ActionError, MalformedError
from gpuforge.wheel.archive import Archive


def of_file(file: Path) -> bytes:
    """Return the bytes of a file of an unpacked `.dist-info`; raises ActionError if it is missing."""
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise ActionError.of(
            f"{file.parent.name} has no {file.name} file", hint="check the project's build"
        ) from error


def of_archive(archive: Archive) -> bytes:
    """Return the METADATA of a wheel that is open; raises MalformedError unless it has exactly one."""
    found = [m for m in archive.members if m.name.endswith(".dist-info/METADATA") and m.name.count("/") == 1]
    if len(found) != 1:
        raise MalformedError.of(f"{archive.path} has {len(found)} METADATA files, and a wheel has one")
    return archive.data(found[0])


def of_wheel(wheel: Path) -> bytes:
    """Return the METADATA of a wheel; raises the errors of `of_archive`."""
    with Archive(wheel) as archive:
        return of_archive(archive)


def parse(text: bytes) -> Message:
    """Parse the fields of METADATA or WHEEL, which end at the first empty line. Never raises."""
    return HeaderParser().parsestr(head(text).decode("utf-8", "replace") + "\n")


def head(text: bytes) -> bytes:
    """Return METADATA or WHEEL as far as the first empty line."""
    return re.split(rb"\r?\n\r?\n", text, maxsplit=1)[0]


def fields(text: bytes | Message, name: str) -> list[str]:
    """Return the values of a field that may occur several times."""
    found = (parse(text) if isinstance(text, bytes) else text).get_all(name, [])
    return [_without_long_numbers(str(value).strip()) for value in found]


def field(text: bytes | Message, name: str) -> str:
    """Return the first value of a field, "" if it is missing."""
    return next(iter(fields(text, name)), "")


def required(text: bytes, name: str) -> str:
    """Return the value of a field; raises ActionError if it is missing."""
    found = field(text, name)
    if not found:
        raise ActionError.of(f"METADATA has no {name}", hint="check the project's build")
    return found


def requirements(text: bytes) -> list[Requirement]:
    """Return the Requires-Dist fields; raises ActionError for an invalid one."""
    return parsed(fields(text, "Requires-Dist"))


def parsed(lines: Iterable[str]) -> list[Requirement]:
    """Return requirements from the lines of Requires-Dist fields; raises the errors of `requirements`."""
    found = []
    for line in lines:
        try:
            found.append(requirement_text.parse(" ".join(line.split())))
        except InvalidRequirement as error:
            raise ActionError.of(
                f"METADATA has a Requires-Dist that is not valid: {line}",
                hint="correct the project's dependencies",
            ) from error
    return found


def refuse_references(requirements: Iterable[Requirement], wheel: str) -> None:
    """Raise ActionError if a requirement is a file or repository, which pip would fetch and build."""
    for each in requirements:
        if each.url is not None:
            raise ActionError.of(
                f"{wheel} declares {each.name} by a direct reference, {str(each)!r}: package indexes refuse such a "
                "wheel, and nothing is fetched from there",
                hint="declare it by name and version",
            )


def _without_long_numbers(value: str) -> str:
    """Replace numbers of 1000 digits and more by "…": Python refuses to read those of thousands of digits."""
    return re.sub(r"(?<!\d)\d{1000,}", "…", value) if len(value) >= 1000 else value
