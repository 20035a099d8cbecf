"""Edits METADATA line by line, so that everything else in it stays unchanged."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gpuforge.wheel import marker, metadata

_HEADER = re.compile(rb"[^\n]*\n(?:[ \t][^\n]*\n)*")  # with its folded lines


def provide_extras(text: bytes, names: Sequence[str]) -> bytes:
    """Declare extras (`Provides-Extra`) that are not declared yet."""
    present = {canonicalize_name(name) for name in metadata.fields(text, "Provides-Extra")}
    return _insert(
        text, [f"Provides-Extra: {name}" for name in names if canonicalize_name(name) not in present]
    )


def add_requirements(text: bytes, lines: Sequence[str]) -> bytes:
    """Add Requires-Dist lines that are not there yet."""
    present = {str(requirement) for requirement in metadata.requirements(text)}
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
    old = canonicalize_name(metadata.required(text, "Name"))
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
            (requirement,) = metadata.parsed([value])
            extras = {canonicalize_name(name) for name in marker.extras_in(requirement.marker)}
            return bool(extras) and extras <= set(names)
    return False


def _split(text: bytes) -> tuple[bytes, bytes]:
    """Split METADATA into its headers (the last newline included) and the rest, from the blank line on."""
    end = re.search(rb"\n(?=\r?\n)", text)
    if end:
        return text[: end.end()], text[end.end() :]
    return (text, b"") if text.endswith(b"\n") else (text + b"\n", b"")


def _newline(headers: bytes) -> bytes:
    return b"\r\n" if headers.split(b"\n", 1)[0].endswith(b"\r") else b"\n"


def _replaced(headers: bytes, header: bytes, new: str) -> bytes:
    line = header + b": " + new.encode()
    return re.sub(rb"(?im)^" + header + rb":[^\r\n]*", lambda _: line, headers, count=1)


def _insert(text: bytes, lines: list[str]) -> bytes:
    """Put header lines after the last Requires-Dist, or at the end of the headers."""
    if not lines:
        return text
    headers, rest = _split(text)
    newline = _newline(headers)
    ends = [found.end() for found in re.finditer(rb"(?im)^Requires-Dist:[^\n]*\n(?:[ \t][^\n]*\n)*", headers)]
    at = ends[-1] if ends else len(headers)
    return headers[:at] + b"".join(line.encode() + newline for line in lines) + headers[at:] + rest
