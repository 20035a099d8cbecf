"""One thing to audit, as a wheel: a wheel, a folder, an installed distribution, a single binary."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Self

from gpuforge.audit.read.site_packages import recorded
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.folder import Folder, files_below

if TYPE_CHECKING:
    from gpuforge.audit.model import Form


class Input(NamedTuple):
    """One thing to audit, as a wheel. `label` is its name in the report, unique within a call."""

    label: str
    path: Path  # the file or folder to open
    place: PurePosixPath  # its path in messages; for a wheel in an sdist, the sdist and the name in it
    form: Form = "wheel"
    info: str = ""  # for "installed": its .dist-info folder
    member: str = ""  # for "file": its name among the single files given
    hashes: bool = False  # whether the hashes in RECORD are compared with the files

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the input for a wheel."""
        return cls(path.name, path, PurePosixPath(path))

    def open(self) -> Archive:
        """Open it for reading; raises MalformedError for a broken file, OSError when it cannot be read."""
        match self.form:
            case "unpacked" | "folder":
                return Folder(self.path, files_below(self.path))
            case "installed":
                return Folder(self.path, recorded(self.path, self.info))
            case "file":
                self.path.stat()
                return Folder(self.path, {self.member: self.path})
            case _:
                return Archive(self.path)

    @property
    def size(self) -> int:
        """Bytes of the file; 0 for a folder."""
        return 0 if self.form in {"unpacked", "installed", "folder"} else self.path.stat().st_size

    @property
    def hint(self) -> str:
        """What to do when it cannot be read."""
        if self.form in {"wheel", "nested"}:
            return "download or build it again; `python -m zipfile -t FILE` tests an archive"
        return "build or install it again"
