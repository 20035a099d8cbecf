"""One thing to audit, as a wheel: a wheel, a folder, an installed distribution, a single binary."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

from packaging.utils import canonicalize_name

from gpuforge.audit.model import ARCHIVES, FOLDERS, Form
from gpuforge.audit.read.site_packages import recorded, unrecorded
from gpuforge.binary.window import Budget
from gpuforge.wheel import filename
from gpuforge.wheel.archive import Archive, Folder, files_below
from gpuforge.wheel.nested import Span, as_file

_BLOCK = 512  # bytes, as st_blocks counts them


class Remote(NamedTuple):
    """How a wheel on a server is read."""

    opened: Callable[[], AbstractContextManager[Archive]]
    size: int  # bytes, from the index; 0 if it has no size
    outline: bool = False  # its binaries are known by name only, and not read


class Input(NamedTuple):
    """One thing to audit, as a wheel. `label` is its name in the report, unique within a call."""

    label: str
    path: Path  # the file or folder to open; for "nested", the archive that it is in
    place: PurePosixPath  # its path in messages; for a wheel in an sdist, the sdist and the name in it
    form: Form = "wheel"
    info: str = ""  # for "installed" and "unpacked": its .dist-info folder
    unrecorded: bool = False  # for "folder": only the binaries of an environment that no RECORD lists
    member: str = ""  # for "file": its name among the single files given
    remote: Remote | None = None
    # for "nested": where its bytes lie, and the budget of the archive that it is in, for all wheels there
    span: Span | None = None
    within: Budget | None = None
    too_large: str = ""  # why it must not be read
    hashes: bool = False  # whether the hashes in RECORD are compared with the files
    # it is read only for the libraries that it brings into the others' process, and not judged
    neighbour: bool = False

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the input for a wheel."""
        return cls(path.name, path, PurePosixPath(path))

    def open(self) -> AbstractContextManager[Archive]:
        """Open it for reading; raises MalformedError for a broken file, OSError when it cannot be read."""
        if self.remote:
            return self.remote.opened()
        match self.form:
            case "unpacked" | "folder":
                below = unrecorded if self.unrecorded else files_below
                return Folder(self.path, below(self.path))
            case "installed":
                return Folder(self.path, recorded(self.path, self.info))
            case "file":
                self.path.stat()
                return Folder(self.path, {self.member: self.path})
            case "nested" if self.span:
                with as_file(self.span) as path:
                    return Archive(path, self.within)
            case _:
                return Archive(self.path)

    @property
    def file_name(self) -> str:
        """The name of its file or folder."""
        return (self.place if self.form == "nested" else self.path).name

    @property
    def claims(self) -> filename.Claims:
        """Its project and version by the name of its file or .dist-info folder, and the tags of a file.

        Binaries claim nothing. The label is not looked at: it may be a folder's name or a part of a path.
        """
        if self.info:
            name, version = filename.of_info(self.info)
            return filename.Claims(canonicalize_name(name), version)
        return filename.claims(self.file_name) if self.form in ARCHIVES else filename.Claims()

    @property
    def size(self) -> int:
        """Bytes of the file; 0 for a folder."""
        if self.remote:
            return self.remote.size
        if self.span:
            return self.span.size
        return 0 if self.form in FOLDERS else self.path.stat().st_size

    @property
    def on_disk(self) -> int:
        """The bytes to read, without holes in files; 0 for a folder whose files are not listed.

        A wheel in an archive takes no more than the archive, which may be packed a thousand times smaller.

        Raises MalformedError for a broken RECORD, OSError when it cannot be read.
        """
        match self.form:
            case "installed":
                return sum(map(_on_disk, recorded(self.path, self.info).values()))
            case "folder" if self.unrecorded:
                return sum(map(_on_disk, unrecorded(self.path).values()))
            case "nested" if self.within:
                return min(self.size, self.within.size)
            case _:
                return self.size

    @property
    def hint(self) -> str:
        """The hint for an input that cannot be read."""
        if self.form in ARCHIVES:
            return "download or build it again; `python -m zipfile -t FILE` tests an archive"
        return "build or install it again"


class Beside(NamedTuple):
    """An environment, and the wheels that are installed into it beside the judged ones."""

    environment: Path | None = None
    wheels: tuple[Input, ...] = ()
    library_path: tuple[Path, ...] = ()  # the folders of LD_LIBRARY_PATH with which the environment is used

    def __bool__(self) -> bool:
        return self.environment is not None or bool(self.wheels or self.library_path)


ALONE = Beside()


def _on_disk(file: Path) -> int:
    try:
        found = file.stat()
    except (OSError, ValueError):  # reported when it is read
        return 0
    return min(found.st_size, found.st_blocks * _BLOCK)
