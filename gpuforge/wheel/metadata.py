"""METADATA and WHEEL: fields, requirements with their markers, and tags; edits change only the lines in question.

https://packaging.python.org/en/latest/specifications/core-metadata/
https://packaging.python.org/en/latest/specifications/dependency-specifiers/#environment-markers
https://packaging.python.org/en/latest/specifications/binary-distribution-format/#file-contents
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from gpuforge.errors import ActionError, MalformedError, TooLargeError
from gpuforge.requirements import parse_requirement
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
            found.append(parse_requirement(" ".join(line.split())))
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


_PYTHONS = tuple(f"3.{minor}" for minor in range(40))
_EXTRA = re.compile(r'\bextra ===? "([^"]+)"|"([^"]+)" ===? extra\b')


def extras_in(marker: Marker | None) -> list[str]:
    """Return the extras that a marker compares with: "cuda13" of `extra == "cuda13"` and of `"cuda13" == extra`.

    packaging writes every marker in one form, with double quotes and single spaces, but has no interface to its parts.
    """
    return [one or other for one, other in _EXTRA.findall(str(marker))]


def installed_with(declared: Iterable[Requirement], extras: Iterable[str]) -> list[Requirement]:
    """Return the requirements of a wheel that is installed with some extras; other markers are not judged."""
    chosen, found = {*map(canonicalize_name, extras)}, []
    for each in declared:
        own = {*map(canonicalize_name, extras_in(each.marker))}
        if not own:
            found.append(each)
        elif own & chosen:
            plain = copy(each)
            plain.marker = None
            found.append(plain)
    return found


def marker_environment(machine: str, python: str = "") -> dict[str, str]:
    """Return the environment of markers on a Linux machine; without a Python ("3.11") it is that of the running one."""
    found = {
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    return found | ({"python_version": python, "python_full_version": f"{python}.0"} if python else {})


def holds(marker: Marker | None, environment: Mapping[str, str], extra: str = "") -> bool:
    """Return whether a requirement with this marker is installed with an extra, or without; True for unknown words."""
    try:
        return marker is None or marker.evaluate({**environment, "extra": extra})
    except (ValueError, KeyError):  # packaging's errors for comparisons and names that do not exist
        return True


def always_holds(marker: Marker | None, machine: str, extra: str = "") -> bool:
    """Return whether a requirement with this marker is installed with every Python on Linux, as in `holds`."""
    return all(holds(marker, marker_environment(machine, python), extra) for python in _PYTHONS)


def extra_of(marker: Marker | None, environment: Mapping[str, str]) -> str | None:
    """Return the extra that a marker needs, "" if it needs none; None if it does not hold in this environment."""
    return next((extra for extra in ("", *extras_in(marker)) if holds(marker, environment, extra)), None)


_MOST_TAGS = 10_000  # tags; published wheels have some hundred at most


def new_wheel_file(*, purelib: bool, tags: Iterable[Tag] = ()) -> bytes:
    """Return a WHEEL with these tags."""
    lines = ["Wheel-Version: 1.0", "Generator: gpuforge", f"Root-Is-Purelib: {str(purelib).lower()}"]
    return "".join(f"{line}\n" for line in [*lines, *(f"Tag: {tag}" for tag in tags)]).encode()


def with_tags(text: bytes, tags: Iterable[Tag]) -> bytes:
    """Return WHEEL with its tags replaced by these, sorted; the other lines stay."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lower().startswith(b"tag:")]
    return b"\n".join([*lines, *(f"Tag: {tag}".encode() for tag in sorted(map(str, tags)))]) + b"\n"


def tags_of(text: bytes) -> tuple[Tag | str, ...]:
    """Return every tag of its Tag lines, sorted; a line that is not a tag stays text.

    Raises TooLargeError.
    """
    lines = fields(text, "Tag")
    if sum(math.prod(part.count(".") + 1 for part in line.split("-")) for line in lines) > _MOST_TAGS:
        raise TooLargeError.of(f"WHEEL stands for more than {_MOST_TAGS:,} tags")
    return tuple(sorted({tag for line in lines for tag in _expanded(line)}, key=str))


def purelib_lines(text: bytes) -> tuple[str, ...]:
    """Return the values of its Root-Is-Purelib lines, of which there should be one."""
    return tuple(fields(text, "Root-Is-Purelib"))


def _expanded(line: str) -> Iterable[Tag | str]:
    try:
        return parse_tag(line)
    except ValueError:
        return [line]


_HEADER = re.compile(rb"[^\n]*\n(?:[ \t][^\n]*\n)*")  # with its folded lines


def provide_extras(text: bytes, names: Sequence[str]) -> bytes:
    """Declare extras (`Provides-Extra`) that are not declared yet."""
    present = {canonicalize_name(name) for name in fields(text, "Provides-Extra")}
    return _insert(
        text, [f"Provides-Extra: {name}" for name in names if canonicalize_name(name) not in present]
    )


def add_requirements(text: bytes, lines: Sequence[str]) -> bytes:
    """Add Requires-Dist lines that are not there yet."""
    present = {str(requirement) for requirement in requirements(text)}
    return insert_requirements(text, [line for line in lines if str(Requirement(line)) not in present])


def insert_requirements(text: bytes, lines: Sequence[str]) -> bytes:
    """Add Requires-Dist lines."""
    return _insert(text, [f"Requires-Dist: {line}" for line in lines])


def without_extras(text: bytes, names: Collection[str]) -> bytes:
    """Remove extras (`Provides-Extra`), by normalized name, and the requirements that belong to no other extra.

    Raises ActionError for an invalid Requires-Dist.
    """
    headers, rest = _split(text)
    return b"".join(line for line in _HEADER.findall(headers) if not _is_of_extras(line, names)) + rest


def with_name(text: bytes, name: str) -> bytes:
    """Rename the distribution, also in requirements on its own extras (`Requires-Dist: name[extra]`)."""
    old = canonicalize_name(required(text, "Name"))
    headers, rest = _split(text)
    lines = _replaced(headers, b"Name", name).splitlines(keepends=True)
    for index, line in enumerate(lines):
        found = re.match(rb"(Requires-Dist:\s*)([A-Za-z0-9._-]+)", line, re.IGNORECASE)
        if found and canonicalize_name(found[2].decode()) == old:
            lines[index] = found[1] + name.encode() + line[found.end() :]
    return b"".join(lines) + rest


def with_version(text: bytes, version: str) -> bytes:
    """Give the distribution another version."""
    headers, rest = _split(text)
    return _replaced(headers, b"Version", version) + rest


def _is_of_extras(header: bytes, names: Collection[str]) -> bool:
    field, _, value = header.decode("utf-8", "replace").partition(":")
    match field.lower():
        case "provides-extra":
            return canonicalize_name(value.strip()) in names
        case "requires-dist":
            (requirement,) = parsed([value])
            extras = {canonicalize_name(name) for name in extras_in(requirement.marker)}
            return bool(extras) and extras <= set(names)
    return False


def _split(text: bytes) -> tuple[bytes, bytes]:
    """Split METADATA into its headers (the last newline included) and the rest, from the blank line on."""
    end = re.search(rb"\n(?=\r?\n)", text)
    if end:
        return text[: end.end()], text[end.end() :]
    return (text, b"") if text.endswith(b"\n") else (text + b"\n", b"")


def _replaced(headers: bytes, header: bytes, new: str) -> bytes:
    line = header + b": " + new.encode()
    return re.sub(rb"(?im)^" + header + rb":[^\r\n]*", lambda _: line, headers, count=1)


def _insert(text: bytes, lines: list[str]) -> bytes:
    """Put header lines after the last Requires-Dist, or at the end of the headers."""
    if not lines:
        return text
    headers, rest = _split(text)
    newline = b"\r\n" if headers.split(b"\n", 1)[0].endswith(b"\r") else b"\n"
    ends = [found.end() for found in re.finditer(rb"(?im)^Requires-Dist:[^\n]*\n(?:[ \t][^\n]*\n)*", headers)]
    at = ends[-1] if ends else len(headers)
    return headers[:at] + b"".join(line.encode() + newline for line in lines) + headers[at:] + rest
