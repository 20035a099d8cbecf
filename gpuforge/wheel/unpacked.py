"""Unpacks wheels after checking their members, and writes them: the same files always give the same bytes."""

import contextlib
import lzma
import shutil
import stat
import time
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from gpuforge import disk, tree
from gpuforge.binary.elf.file import opened
from gpuforge.errors import ActionError, MalformedError
from gpuforge.wheel import record
from gpuforge.wheel.archive import BROKEN
from gpuforge.wheel.checks import archive, kind

_CHUNK = 1 << 20


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into `folder`, which must be empty or absent; of the modes only "executable" is kept.

    Raises ActionError if the archive is damaged, or has a member that is not allowed in a wheel.
    """
    with disk.errors_at(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with zipfile.ZipFile(wheel) as bundle:
                members = bundle.infolist()
                for refusal in archive.check_names(members):
                    if reason := kind(refusal.kind).unpack:
                        raise ActionError.of(
                            f"{wheel.name} holds a member that no wheel may have: {refusal.member!r}: {reason}",
                            hint="the program that wrote this wheel is at fault; nothing was unpacked",
                        )
                for info in (member for member in members if not member.filename.endswith("/")):
                    target = folder / info.filename
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with bundle.open(info) as source, target.open("wb") as sink:
                        shutil.copyfileobj(source, sink, _CHUNK)
                    target.chmod(0o755 if info.external_attr >> 16 & stat.S_IXUSR else 0o644)
        except (*BROKEN, zlib.error, lzma.LZMAError, RuntimeError, OSError) as error:
            if isinstance(error, OSError) and error.errno:  # of the disk: bz2 raises it without a number
                raise
            raise ActionError.of(
                f"{wheel.name} is not a sound wheel: {error}", hint="build or download it again"
            ) from error


def dist_info(tree: Path) -> Path:
    """Return the one `*.dist-info` folder at the top of an unpacked wheel; raises ActionError."""
    found = sorted(path for path in tree.glob("*.dist-info") if path.is_dir())
    if len(found) != 1:
        names = " and ".join(path.name for path in found) or "none"
        raise ActionError.of(
            f"a wheel has exactly one .dist-info folder, and this one has {names}",
            hint="check the project's build",
        )
    return found[0]


def files(folder: Path) -> list[Path]:
    """Return every file of an unpacked wheel, sorted by name."""
    return sorted(folder / each.path for each in tree.walk(folder) if not each.is_folder)


EARLIEST = 315532800  # 1980-01-01T00:00:00Z: the earliest time of a zip member
LATEST = 4354819198  # 2107-12-31T23:59:58Z: the latest
# RECORD does not list itself; its signatures are void if it is rewritten
UNSIGNED = ("RECORD", "RECORD.jws", "RECORD.p7s")


def write(tree: Path, wheel: Path, *, epoch: int | None = None, compress: bool = True) -> None:
    """Write the folder `tree` as the file `wheel`, with a new RECORD (also in the folder).

    Members are sorted, `*.dist-info` last and its RECORD at the very end. Every member has the time `epoch` (seconds
    since 1970, SOURCE_DATE_EPOCH; without it 1980-01-01). Its mode is 0644, or 0755 if it is executable, in
    `*.data/scripts` or an ELF program. The bytes also depend on zlib: a Python built with zlib-ng compresses
    differently.

    The file appears whole or not at all. Raises ActionError for links and special files, and if the disk is full or
    cannot be written.
    """
    names = _names(tree)
    listing = (dist_info(tree) / "RECORD").relative_to(tree).as_posix()
    date = time.gmtime(min(max(epoch or 0, EARLIEST), LATEST))[:6]
    with disk.errors_at(wheel), disk.appearing(wheel) as stream:
        (tree / listing).write_text(record.text(tree, names, listing), encoding="utf-8")
        with zipfile.ZipFile(stream, "w") as bundle:
            for name in [*names, listing]:
                _add(bundle, tree / name, name, date, compress=compress)


def _names(tree: Path) -> list[str]:
    """Return every member except RECORD, in the order of the archive."""
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


def _add(bundle: zipfile.ZipFile, path: Path, name: str, date: tuple[int, ...], *, compress: bool) -> None:
    info = zipfile.ZipInfo(name, date[:6])  # type: ignore[arg-type]  # six numbers, as it wants
    info.create_system = 3  # Unix, for the modes below
    info.external_attr = (stat.S_IFREG | (0o755 if _executable(path, name) else 0o644)) << 16
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info.file_size = path.stat().st_size  # zipfile uses ZIP64 only if it must when it knows the size before
    with path.open("rb") as source, bundle.open(info, "w") as sink:
        shutil.copyfileobj(source, sink, _CHUNK)


def _executable(path: Path, name: str) -> bool:
    top, *rest = PurePosixPath(name).parts
    scripts = top.endswith(".data") and rest[:1] == ["scripts"]
    library = ".so" in PurePosixPath(name).suffixes  # linkers mark it executable, but it is not a program
    return scripts or bool(path.stat().st_mode & stat.S_IXUSR and not library) or _is_program(path)


def _is_program(path: Path) -> bool:
    with contextlib.suppress(MalformedError), opened(path) as file:
        return file is not None and file.is_program
    return False
