"""Members that have no place in a wheel: installers and package indexes refuse an archive that has one."""

import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple


class Refusal(NamedTuple):
    """A member that a wheel must not have, and why."""

    member: str
    reason: str


def refusals(members: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    """Yield every reason to refuse an archive with these members."""
    for check in (_bad_path, _special_file, _duplicate, _file_and_folder):
        yield from check(members)


def _bad_path(members: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    for info in members:
        name = info.orig_filename  # zipfile changes `filename`: cut at a NUL byte, separators replaced
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
            yield Refusal(name, "its path leads out of the wheel or is empty")


def _special_file(members: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    for info in members:
        if stat.S_IFMT(info.external_attr >> 16) not in {0, stat.S_IFREG, stat.S_IFDIR}:
            yield Refusal(info.orig_filename, "it is a link or a special file")


def _duplicate(members: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    seen = set()
    for info in _files(members):
        path = PurePosixPath(info.orig_filename)
        if path in seen:
            yield Refusal(info.orig_filename, "it is there twice")
        seen.add(path)


def _file_and_folder(members: Sequence[zipfile.ZipInfo]) -> Iterator[Refusal]:
    folders = {parent for info in members for parent in PurePosixPath(info.orig_filename).parents}
    folders |= {PurePosixPath(info.orig_filename) for info in members if info.is_dir()}
    for path in sorted(folders & {PurePosixPath(info.orig_filename) for info in _files(members)}):
        yield Refusal(str(path), "it is a file and a folder at once")


def _files(members: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    return [info for info in members if not info.is_dir()]
