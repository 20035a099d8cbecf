"""Checks the file name and the metadata: PyPI's spelling of names, licence files, commands, data folders."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from packaging.requirements import InvalidRequirement
from packaging.utils import canonicalize_name

from gpuforge import requirement_text
from gpuforge.datafile import load
from gpuforge.errors import MalformedError, TooLargeError
from gpuforge.wheel import metadata
from gpuforge.wheel.archive import Archive, Member
from gpuforge.wheel.checks import destinations
from gpuforge.wheel.checks.refusal import Refusal
from gpuforge.wheel.dist_info import DistInfo
from gpuforge.wheel.filename import WheelName

_SCHEMES = {"purelib", "platlib", "headers", "scripts", "data"}
_VERSION = re.compile(r"[01]\.\d+")
_LARGEST = 1 << 20  # bytes of a file that is read


def check(archive: Archive, info: DistInfo, file_name: str) -> Iterator[Refusal]:
    """Yield the promises that the wheel of this name does not keep; raises TooLargeError."""
    members = {member.name: member for member in archive.members}
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
    yield from destinations.check(members.values(), partial(_read, archive))


def _commands(archive: Archive, points: Member) -> Iterator[Refusal]:
    from gpuforge.wheel.checks import scripts  # noqa: PLC0415  few wheels have commands; its readers take 10 ms

    if points.size > _LARGEST:
        raise TooLargeError.of(f"entry_points.txt has more than {_LARGEST:,} bytes")
    for refusal in scripts.check(_read(archive, points)):
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
        return requirement_text.parse(line).url is not None
    except InvalidRequirement:  # reported as GF704
        return False


def _data_folders(info: DistInfo, members: Iterable[str]) -> Iterator[Refusal]:
    for name in members:
        top, _, rest = name.partition("/")
        if top.endswith(".data") and (rest.count("/") == 0 or rest.partition("/")[0] not in _SCHEMES):
            yield Refusal("data scheme" if top == f"{info.folder}.data" else "other data scheme", name)


def _read(archive: Archive, member: Member) -> bytes:
    try:
        return archive.data(member)
    except MalformedError:  # reported as GF705
        return b""
