"""Unpacks wheels after checking their members, and finds the `.dist-info` folder and the files."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path

from gpuforge import disk, tree
from gpuforge.errors import ActionError
from gpuforge.wheel.archive import BROKEN
from gpuforge.wheel.checks import names
from gpuforge.wheel.checks.refusal import kind

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
                for refusal in names.check(members):
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
        except (*BROKEN, zlib.error, RuntimeError) as error:
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
