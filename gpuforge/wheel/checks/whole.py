"""Runs every check of an archive, and those of the whole archive: its ratio, and whether it is also a tar file."""

import re
from collections.abc import Iterator

from gpuforge.wheel.archive import Archive
from gpuforge.wheel.checks import ends, local_headers, names
from gpuforge.wheel.checks.refusal import Refusal

# https://github.com/pypi/warehouse/blob/main/warehouse/forklift/legacy.py: COMPRESSION_RATIO_…
_UNPACKED, _RATIO = 64 << 20, 50
_BLOCK = 512  # bytes of a tar file's first header
_CHECKSUM, _CHECKSUM_AT = re.compile(rb"[ 0-7]{0,7}[0-7][ \0]*"), (148, 156)  # of that header


def check(archive: Archive) -> Iterator[Refusal]:
    """Yield the refusals of indexes and installers for the archive itself; one finding for each cause."""
    entries = archive.directory.entries
    records = [*local_headers.check(archive), *ends.check(archive)]
    if _is_tar(archive):
        records = [Refusal("zip and tar"), *(r for r in records if r.kind != "data before")]
    yield from names.check(entries)
    yield from records
    unpacked = sum(info.file_size for info in entries)
    if unpacked > _UNPACKED and unpacked > _RATIO * archive.directory.size:
        yield Refusal("ratio", facts={"size": unpacked, "ratio": unpacked // archive.directory.size})


def _is_tar(archive: Archive) -> bool:
    """Return whether it also begins as a tar file, which is not compressed."""
    block = archive.read_at(0, _BLOCK)
    if len(block) < _BLOCK or not _CHECKSUM.fullmatch(block, *_CHECKSUM_AT):
        return False
    import tarfile  # noqa: PLC0415  for an archive in thousands

    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True
