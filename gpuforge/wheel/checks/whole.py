"""Every check of an archive, and of the archive as a whole: its ratio, and whether it is a tar file, too."""

import re
from collections.abc import Iterator

from gpuforge.wheel.archive import Archive
from gpuforge.wheel.checks import ends, headers, names
from gpuforge.wheel.checks.refusal import Refusal

# https://github.com/pypi/warehouse/blob/main/warehouse/forklift/legacy.py: COMPRESSION_RATIO_…
_UNPACKED, _RATIO = 64 << 20, 50
_CHECKSUM, _CHECKSUM_AT = re.compile(rb"[ 0]*[0-7]+[ \0]*"), (148, 8)  # of a tar file's first header


def check(archive: Archive) -> Iterator[Refusal]:
    """Yield what indexes and installers refuse about the archive itself; one finding for each cause."""
    entries = archive.directory.entries
    records = [*headers.check(archive), *ends.check(archive)]
    if _is_tar(archive, records):
        records = [Refusal("zip and tar"), *(r for r in records if r.kind != "data before")]
    yield from names.check(entries)
    yield from records
    unpacked = sum(info.file_size for info in entries)
    if unpacked > _UNPACKED and unpacked > _RATIO * archive.directory.size:
        yield Refusal(
            "ratio", detail=f"{unpacked >> 20} MiB, {unpacked // archive.directory.size} times the archive"
        )


def _is_tar(archive: Archive, records: list[Refusal]) -> bool:
    """Say whether it is a tar file, too; one that is compressed begins with bytes that are not of a zip file."""
    if _CHECKSUM.fullmatch(archive.at(*_CHECKSUM_AT)) or any(r.kind == "data before" for r in records):
        import tarfile  # noqa: PLC0415  for an archive in thousands

        return tarfile.is_tarfile(archive.path)
    return False
