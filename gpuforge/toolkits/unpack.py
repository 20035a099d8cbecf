"""Reads distribution packages without their package manager: a .deb's files, and single blocks of its .xz archive.

A .deb is an ar archive of three members: https://manpages.debian.org/deb.5
"""

import lzma
import tarfile
from collections.abc import Callable, MutableMapping
from pathlib import Path, PurePosixPath
from typing import IO

from gpuforge.binary import ar
from gpuforge.errors import ActionError, MalformedError

# The first 12 bytes of an .xz file with CRC64 checks, as dpkg-deb writes it (https://tukaani.org/xz/xz-file-format.txt).
STREAM_HEADER = bytes.fromhex("fd377a585a000004e6d6b446")
_COMPRESSIONS = {"": "r|", ".xz": "r|xz", ".gz": "r|gz", ".bz2": "r|bz2"}


def unpack_deb(
    deb: Path,
    tree: Path,
    place: Callable[[PurePosixPath], PurePosixPath | None],
    *,
    links: MutableMapping[PurePosixPath, str] | None = None,
) -> int:
    """Unpack regular files of a .deb into `tree`; `place` returns the relative path of each, or None to leave it out.

    Names are given without the leading "./". Returns how many files were written; executable bits stay. Symbolic links
    are not made, but `links` gets each with its target. Raises ActionError when it is not a .deb, is compressed in an
    unknown way, or breaks off.
    """
    with deb.open("rb") as stream:
        mode = _seek_data(stream, deb)
        try:
            with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
                return _extract(archive, tree, place, {} if links is None else links)
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise ActionError.of(f"{deb.name} cannot be unpacked: {error}", hint="try again") from error


def unpack_block(packed: bytes) -> bytes:
    """Return the content of one block of an .xz file; raises ActionError if it is damaged."""
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(STREAM_HEADER + packed)
    except lzma.LZMAError as error:
        raise ActionError.of(f"a part of a package cannot be unpacked: {error}", hint="try again") from error


def _seek_data(stream: IO[bytes], deb: Path) -> str:
    """Move to the content of data.tar.*; return tarfile's mode for it."""
    if stream.read(len(ar.MAGIC)) != ar.MAGIC:
        raise ActionError.of(f"{deb.name} is not a Debian package", hint="try again, or another mirror")
    while data := stream.read(ar.HEADER):
        try:
            raw, size = ar.header(data, stream.tell() - len(data))
        except MalformedError as error:
            raise ActionError.of(
                f"{deb.name} is damaged: {error}", hint="try again, or another mirror"
            ) from error
        name = raw.decode("ascii", "replace").rstrip("/")
        if name.startswith("data.tar"):
            suffix = name.removeprefix("data.tar")
            if suffix not in _COMPRESSIONS:
                raise ActionError.of(f"{deb.name} is compressed as {suffix}, which cannot be unpacked here")
            return _COMPRESSIONS[suffix]
        stream.seek(size + size % 2, 1)
    raise ActionError.of(f"{deb.name} holds no files", hint="try again, or another mirror")


def _extract(
    archive: tarfile.TarFile,
    tree: Path,
    place: Callable[[PurePosixPath], PurePosixPath | None],
    links: MutableMapping[PurePosixPath, str],
) -> int:
    count = 0
    for member in archive:
        if member.issym():
            links[PurePosixPath(member.name)] = member.linkname
        target = place(PurePosixPath(member.name)) if member.isfile() else None
        if target is None:
            continue
        path = tree / target
        path.parent.mkdir(parents=True, exist_ok=True)
        content = archive.extractfile(member)
        assert content is not None  # noqa: S101  it is a regular file
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            while chunk := content.read(1 << 20):
                file.write(chunk)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
        count += 1
    return count
