"""Wheels as archives: read one safely into a folder, write one from a folder with bytes that never vary."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import os
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from gpuforge import digest
from gpuforge.errors import ActionError

EARLIEST = 315532800  # 1980-01-01T00:00:00Z: a zip member cannot say an earlier time
LATEST = 4354819198  # 2107-12-31T23:59:58Z, nor a later one
UNSIGNED = ("RECORD", "RECORD.jws", "RECORD.p7s")  # RECORD has no hash in itself; its signatures die with it
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK_HINTS = {
    **dict.fromkeys(_FULL, "free some space there, or choose another folder for the output"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "check the folder's rights, or choose another one"
    ),
}
_CHUNK = 1 << 20


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into `folder`, which must be empty or absent; of the modes only "executable" is kept.

    Raises ActionError when the archive is damaged, or holds a member that has no place in a wheel: an
    absolute or parent path, a link, a name twice, a file where another member needs a folder.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(wheel) as bundle:
                for info in _checked(bundle.infolist(), wheel.name):
                    target = folder / info.filename
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with bundle.open(info) as source, target.open("wb") as sink:
                        shutil.copyfileobj(source, sink, _CHUNK)
                    target.chmod(0o755 if info.external_attr >> 16 & stat.S_IXUSR else 0o644)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise ActionError.of(
                f"{wheel.name} is not a sound wheel: {error}", hint="build or download it again"
            ) from error


def write(tree: Path, wheel: Path, *, epoch: int | None = None, compress: bool = True) -> None:
    """Write the folder `tree` as the file `wheel`, with a new RECORD (which the folder gets, too).

    The same files give the same bytes: members are sorted, `*.dist-info` last and its RECORD at the very
    end; every member has the time `epoch` (seconds since 1970, SOURCE_DATE_EPOCH; without it 1980-01-01)
    and the mode 0644, or 0755 if it is executable, in `*.data/scripts` or an ELF program. What could still
    change the bytes is zlib itself: its default level gives the same stream in all releases of the
    original, but a Python built upon zlib-ng or another rewrite compresses otherwise.

    The file appears whole or not at all. Raises ActionError for links and special files, and when the disk
    is full or cannot be written.
    """
    names = _names(tree)
    record = (dist_info(tree) / "RECORD").relative_to(tree).as_posix()
    date = time.gmtime(min(max(epoch or 0, EARLIEST), LATEST))[:6]
    with disk_errors(wheel), _appearing(wheel) as stream:
        _write_record(tree, names, record)
        with zipfile.ZipFile(stream, "w") as bundle:
            for name in [*names, record]:
                _add(bundle, tree / name, name, date, compress=compress)


def write_text(file: Path, text: str) -> None:
    """Write a text file that appears whole or not at all; raises ActionError when the disk is full."""
    with disk_errors(file), _appearing(file) as stream:
        stream.write(text.encode())


def dist_info(tree: Path) -> Path:
    """Return the one `*.dist-info` folder at the top of an unpacked wheel; raises ActionError."""
    found = sorted(path for path in tree.glob("*.dist-info") if path.is_dir())
    if len(found) != 1:
        said = " and ".join(path.name for path in found) or "none"
        raise ActionError.of(
            f"a wheel has exactly one .dist-info folder, and this one has {said}",
            hint="check the project's build",
        )
    return found[0]


def files(tree: Path) -> list[Path]:
    """Return every file of an unpacked wheel, sorted by name."""
    return sorted(path for path in digest.walk(tree))


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn a failure of the disk, met while writing at `place`, into an ActionError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        place = place if error.errno in _FULL else Path(error.filename or place)
        raise ActionError.of(
            f"{place}: {os.strerror(error.errno)}", hint=_DISK_HINTS.get(error.errno, "")
        ) from error


def _checked(members: list[zipfile.ZipInfo], wheel: str) -> list[zipfile.ZipInfo]:
    taken: set[str] = set()
    folders: set[str] = set()
    kept = []
    for info in members:
        name = info.orig_filename  # zipfile rewrites `filename`: cut at a NUL byte, other separators replaced
        path = PurePosixPath(name)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts:
            raise _refusal(wheel, name, "its path leads out of the wheel or is none")
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise _refusal(wheel, name, "it is a link or a special file")
        if not info.is_dir():
            if str(path) in taken:
                raise _refusal(wheel, name, "it is there twice")
            taken.add(str(path))
            kept.append(info)
        folders.update(str(parent) for parent in path.parents)
    for name in sorted(taken & folders):
        raise _refusal(wheel, name, "it is a file and a folder at once")
    return kept


def _refusal(wheel: str, member: str, reason: str) -> ActionError:
    return ActionError.of(
        f"{wheel} holds a member that no wheel may have: {member!r}: {reason}",
        hint="the program that wrote this wheel is at fault; nothing of it was used",
    )


def _names(tree: Path) -> list[str]:
    """Every member but RECORD, in the order of the archive."""
    info = dist_info(tree).name
    left_out = {f"{info}/{name}" for name in UNSIGNED}
    names = []
    for path in files(tree):
        name = path.relative_to(tree).as_posix()
        if not stat.S_ISREG(path.lstat().st_mode):
            raise ActionError.of(
                f"{name} is a link or a special file; a wheel can hold neither",
                hint="have the build install a copy of what the link points to",
            )
        if name not in left_out:
            names.append(name)
    return sorted(names, key=lambda name: (name.startswith(f"{info}/"), name))


def _write_record(tree: Path, names: list[str], record: str) -> None:
    """Write RECORD: https://packaging.python.org/en/latest/specifications/recording-installed-packages/."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name in names:
        with (tree / name).open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").digest()
        rows.writerow(
            [name, "sha256=" + base64.urlsafe_b64encode(sha256).rstrip(b"=").decode(), _size(tree / name)]
        )
    rows.writerow([record, "", ""])
    (tree / record).write_text(text.getvalue(), encoding="utf-8")


def _add(bundle: zipfile.ZipFile, path: Path, name: str, date: tuple[int, ...], *, compress: bool) -> None:
    info = zipfile.ZipInfo(name, date[:6])  # type: ignore[arg-type]  # six numbers, as it wants
    info.create_system = 3  # Unix: the modes below mean something
    info.external_attr = (stat.S_IFREG | (0o755 if _executable(path, name) else 0o644)) << 16
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info.file_size = _size(path)  # known before: zipfile then takes ZIP64 exactly when it must
    with path.open("rb") as source, bundle.open(info, "w") as sink:
        shutil.copyfileobj(source, sink, _CHUNK)


def _size(path: Path) -> int:
    return path.stat().st_size


def _executable(path: Path, name: str) -> bool:
    top, *rest = PurePosixPath(name).parts
    scripts = top.endswith(".data") and rest[:1] == ["scripts"]
    return scripts or bool(path.stat().st_mode & stat.S_IXUSR and not _is_library(name)) or _is_program(path)


def _is_library(name: str) -> bool:
    """Tell a shared library by its name: linkers mark them executable, and nothing executes them."""
    return ".so" in PurePosixPath(name).suffixes


def _is_program(path: Path) -> bool:
    """Tell whether a file is an ELF program: type ET_EXEC, or ET_DYN with an interpreter (PT_INTERP)."""
    with path.open("rb") as stream:
        head = stream.read(4096)  # program headers follow the ELF header at once, in what every linker writes
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return False
    if int.from_bytes(head[16:18], "little") == 2:
        return True
    start, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    return any(head[at : at + 4] == b"\3\0\0\0" for at in range(start, start + size * count, size or 1))


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the name `path` when it is complete, and else leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
