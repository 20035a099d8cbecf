"""Compares the hashes in RECORD with the files, for which every byte of the wheel is read again."""

import base64
from collections.abc import Iterator

from gpuforge.errors import CorruptError
from gpuforge.wheel import record
from gpuforge.wheel.archive import Archive

_ALGORITHMS = {
    "sha256",
    "sha384",
    "sha512",
}  # the others are weaker than RECORD's specification allows


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
