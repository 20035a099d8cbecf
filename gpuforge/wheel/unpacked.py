"""Unpacked wheels: made from an archive whose members were checked, their `.dist-info` folder, their files."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from gpuforge import digest, disk
from gpuforge.errors import ActionError

_CHUNK = 1 << 20


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into `folder`, which must be empty or absent; of the modes only "executable" is kept.

    Raises ActionError when the archive is damaged, or holds a member that has no place in a wheel: an
    absolute or parent path, a link, a name twice, a file where another member needs a folder.
    """
    with disk.errors_at(folder):
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
