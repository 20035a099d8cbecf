"""Checks what a wheel promises: names, licence files, commands, the places of members, and the hashes in RECORD.

A member of the .data folder is installed to another place than its name:
https://packaging.python.org/en/latest/specifications/binary-distribution-format/#installing-a-wheel-distribution-1-0-py32-none-any-whl
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name

from gpuforge.datafile import load
from gpuforge.errors import CorruptError, MalformedError, TooLargeError
from gpuforge.requirements import parse_requirement
from gpuforge.wheel import metadata, record
from gpuforge.wheel.archive import Archive, Member
from gpuforge.wheel.checks import Refusal
from gpuforge.wheel.dist_info import DistInfo
from gpuforge.wheel.filename import WheelName, plain_name

_SCHEMES = {"purelib", "platlib", "headers", "scripts", "data"}
_VERSION = re.compile(r"[01]\.\d+")
_LARGEST = 1 << 20  # bytes of a file that is read


def check(archive: Archive, info: DistInfo, file_name: str) -> Iterator[Refusal]:
    """Yield the promises that the wheel of this name does not keep; raises TooLargeError."""
    members = {member.name: member for member in archive.members}
    if f"{info.folder}.dist-info/variant.json" in members:
        yield Refusal("variant", facts={"label": file_name.removesuffix(".whl").rpartition("-")[2]})
        file_name = plain_name(file_name)
    yield from _names(info, file_name)
    if (declared := members.get(f"{info.folder}.dist-info/WHEEL")) and declared.size <= _LARGEST:
        version = metadata.field(_read(archive, declared), "Wheel-Version")
        if not _VERSION.fullmatch(version):
            yield Refusal("wheel version", declared.name, {"version": version} if version else {})
    for name in info.license_files:
        if f"{info.folder}.dist-info/licenses/{name}" not in members:
            yield Refusal("license file", f"{info.folder}.dist-info/METADATA", {"name": name})
    for line in info.requires:
        if "@" in line and _has_url(line):
            yield Refusal("requirement by URL", f"{info.folder}.dist-info/METADATA", {"line": line})
    if points := members.get(f"{info.folder}.dist-info/entry_points.txt"):
        yield from _commands(archive, points)
    yield from _data_folders(info, members)
    yield from check_destinations(members.values(), partial(_read, archive))


def _commands(archive: Archive, points: Member) -> Iterator[Refusal]:
    from gpuforge.wheel.checks import commands  # noqa: PLC0415  few wheels have commands; its readers take 10 ms

    if points.size > _LARGEST:
        raise TooLargeError.of(f"entry_points.txt has more than {_LARGEST:,} bytes")
    for refusal in commands.check(_read(archive, points)):
        yield refusal._replace(member=points.name)


def _names(info: DistInfo, file_name: str) -> Iterator[Refusal]:
    name = WheelName.unchecked(file_name)
    if name is None:
        return  # reported as GF704
    project, version = name.distribution, name.version
    normal = canonicalize_name(project).replace("-", "_")
    if project != normal:
        yield Refusal("file name", facts={"name": project, "normal": normal})
    if canonicalize_name(info.folder) == canonicalize_name(f"{project}-{version}") and (
        info.folder != f"{project}-{version}"
    ):
        yield Refusal("folder name", f"{info.folder}.dist-info", {"project": project, "version": version})
    if "+" in version:
        yield Refusal("local version", facts={"version": version})
    accepted = re.compile("|".join(load(__file__, "platforms.toml")["accepted"]))
    for tag in sorted(set(name.platform.split("."))):
        if not accepted.fullmatch(tag):
            yield Refusal("platform tag", facts={"tag": tag})


def _has_url(line: str) -> bool:
    try:
        return parse_requirement(line).url is not None
    except InvalidRequirement:  # reported as GF704
        return False


def _data_folders(info: DistInfo, members: Iterable[str]) -> Iterator[Refusal]:
    for name in members:
        top, _, rest = name.partition("/")
        if not top.endswith(".data"):
            continue
        known = "/" in rest and rest.partition("/")[0] in _SCHEMES
        if top != f"{info.folder}.data":
            yield Refusal("other data folder" if known else "other data scheme", name)
        elif not known:
            yield Refusal("data scheme", name)


def _read(archive: Archive, member: Member) -> bytes:
    try:
        return archive.data(member)
    except MalformedError:  # reported as GF705
        return b""


_MOVED = re.compile(r"[^/]+\.data/(purelib|platlib|scripts|data)/(.+)", re.DOTALL)
_SITE = re.compile(r"(?:lib(?:64)?/python3[^/]*|Lib)/site-packages/")
_OUTSIDE = "/"  # the beginning of a place outside of site-packages: a path in the environment
_EXECUTED = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])import[ \t]")
_IMPORTED = re.compile(r"(?:sitecustomize|usercustomize)(?:\.py|/__init__\.py)")


def check_destinations(members: Iterable[Member], read: Callable[[Member], bytes]) -> Iterator[Refusal]:
    """Yield the members whose place surprises users; `read` returns the bytes of one."""
    names = {member.name: member for member in members}
    moved = {name: _place(name) for name in names if ".data/" in name}
    places = {place: name for name, place in moved.items() if place}
    for name, place in moved.items():
        if place in names or places.get(place, name) != name:
            other = place if place in names else places[place]
            yield Refusal("installed twice", name, {"name": other})
        elif place.partition("/")[0].endswith(".dist-info"):
            yield Refusal("other package", name)
        elif place.startswith("/bin/") and _replaces_python(place.removeprefix("/bin/")):
            yield Refusal("interpreter", name)
    for name, member in names.items():
        if _is_run(moved.get(name, name), member, read):
            yield Refusal("start file", name)


def _replaces_python(command: str) -> bool:
    from gpuforge.wheel.checks.commands import RESERVED  # noqa: PLC0415  few wheels have commands

    return RESERVED.fullmatch(command.lower()) is not None


def _place(name: str) -> str:
    """Return the place of a member of a .data folder: a path in site-packages, or one that begins with `/`."""
    found = _MOVED.fullmatch(name)
    if found is None:
        return ""
    scheme, path = found.groups()
    match scheme:
        case "purelib" | "platlib":
            return path
        case "scripts":
            return f"{_OUTSIDE}bin/{path}"
        case _:
            return path[inside.end() :] if (inside := _SITE.match(path)) else f"{_OUTSIDE}{path}"


def _is_run(place: str, member: Member, read: Callable[[Member], bytes]) -> bool:
    """Return whether Python runs lines of a file at each start (https://docs.python.org/3/library/site.html)."""
    if "customize" in place and _IMPORTED.fullmatch(place):
        return True
    if "/" in place or not place.endswith((".pth", ".start")):
        return False
    if place.endswith(".start") or member.size > _LARGEST:
        return True
    return _EXECUTED.search(read(member)) is not None


# the others are weaker than RECORD's specification allows
_ALGORITHMS = {"sha256", "sha384", "sha512"}


def differing(archive: Archive, listing: str) -> Iterator[str]:
    """Yield the files whose hash differs from the RECORD of this name, in which the last line of a file counts.

    A file that cannot be unpacked is left out. Raises csv.Error for a RECORD that is not a CSV file.
    """
    import hashlib  # noqa: PLC0415  few audits compare hashes

    members = {member.name: member for member in archive.members}
    rows = record.rows(archive.chunks(members[listing]))
    digests = {row.name: row.digest.partition("=") for row in rows if row.digest and row.name in members}
    for name, (algorithm, _, digest) in digests.items():
        if algorithm not in _ALGORITHMS:
            continue
        found = hashlib.new(algorithm)
        try:
            for chunk in archive.chunks(members[name]):
                found.update(chunk)
        except CorruptError:  # reported as GF705, or by `python -m zipfile -t`
            continue
        if base64.urlsafe_b64encode(found.digest()).rstrip(b"=") != digest.rstrip("=").encode():
            yield name
