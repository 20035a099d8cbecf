"""What the audit was given to read: wheels, folders, sdists, single binaries; each becomes one input or several.

Nothing is written to disk: wheels inside an sdist are unpacked into anonymous memory files.
"""

import csv
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

from gpuforge.audit.model import Form
from gpuforge.binary import fatbin
from gpuforge.binary.elf.header import MAGIC
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import MalformedError
from gpuforge.wheel.archive import Archive
from gpuforge.wheel.folder import Folder, files_below

_SITE = r"lib\w*/python3[^/]*/(?:site|dist)-packages"  # below an environment, or /usr
_BINARY = (MAGIC, fatbin.MAGIC, b"!<ar", b"!<th")  # archives, thin ones too
_INFO = ".dist-info"


class Input(NamedTuple):
    """One thing to audit, as a wheel. `label` is what the report calls it: no two in one call have the same."""

    label: str
    path: Path  # the file or the folder that is opened
    place: PurePosixPath  # where it is, for messages: of a wheel in an sdist, the sdist and its name there
    form: Form = "wheel"
    info: str = ""  # for "installed": its .dist-info folder
    member: str = ""  # for "file": its name among the single files given

    @classmethod
    def of(cls, path: Path) -> Self:
        """Take `path` for a wheel."""
        return cls(path.name, path, PurePosixPath(path))

    def open(self) -> Archive:
        """Open it for reading; raises MalformedError for what is broken, OSError when it cannot be read."""
        match self.form:
            case "unpacked" | "folder":
                return Folder(self.path, files_below(self.path))
            case "installed":
                return Folder(self.path, _recorded(self.path, self.info))
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


class Inputs:
    """Everything to read, and a diagnostic for each path that has nothing to read."""

    def __init__(self) -> None:
        self.found: list[Input] = []
        self.problems: list[Diagnostic] = []
        self.memory: list[int] = []  # open files that hold unpacked wheels


@contextmanager
def expand(paths: Iterable[Path]) -> Iterator[Inputs]:
    """Find out what each path is; what was unpacked into memory is let go at the end.

    A path that is nothing known is taken for a wheel, so that reading it says what is wrong.
    """
    inputs = Inputs()
    try:
        for path in dict.fromkeys(paths):
            try:
                _add(path, inputs)
            except MalformedError as error:
                inputs.problems.append(_problem(path, error.diagnostics[0].message, _AGAIN))
            except OSError as error:
                inputs.problems.append(_problem(path, error.strerror or str(error), "check the path"))
        inputs.found = _labelled(_named(inputs.found))
        yield inputs
    finally:
        for descriptor in inputs.memory:
            os.close(descriptor)


_AGAIN = "download or build it again"
_NO_FILE = "it is neither a file nor a folder", "save it to a file first"


def _add(path: Path, inputs: Inputs) -> None:
    if path.is_dir():
        _add_folder(path, inputs)
    elif path.exists() and not path.is_file():
        inputs.problems.append(_problem(path, *_NO_FILE))
    elif path.suffix == ".whl" or not path.exists():
        inputs.found.append(Input.of(path))
    elif _is_binary(path):
        inputs.found.append(Input(path.name, path, PurePosixPath(path), "file", member=path.name))
    else:
        _add_archive(path, inputs)


def _is_binary(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(8)
    return head.startswith(_BINARY) or path.suffix == ".ptx"


def _add_folder(path: Path, inputs: Inputs) -> None:
    sites = _sites(path)
    for site in sites:
        for info in sorted(entry.name for entry in site.iterdir() if entry.name.endswith(_INFO)):
            if not (site / info / "RECORD").is_file():
                problem = _problem(
                    site / info, "it has no RECORD, so its files are not known", "install it with pip"
                )
                inputs.problems.append(problem)
                continue
            inputs.found.append(Input(info, site, PurePosixPath(site / info), "installed", info=info))
    if sites:
        return
    if len([entry for entry in path.iterdir() if entry.name.endswith(_INFO)]) == 1:
        inputs.found.append(Input(path.resolve().name, path, PurePosixPath(path.resolve()), "unpacked"))
        return
    files = files_below(path)
    wheels = [file for name, file in files.items() if name.endswith(".whl")]
    for file in wheels:
        if _endless(file):
            inputs.problems.append(_problem(file, *_NO_FILE))
        else:
            inputs.found.append(Input.of(file))
    if wheels:
        return
    if any(file.is_file() and _is_binary(file) for file in files.values()):
        inputs.found.append(Input(path.resolve().name, path, PurePosixPath(path.resolve()), "folder"))
    else:
        problem = _problem(
            path,
            "there is no wheel and no binary below it, and it is no unpacked wheel and no environment",
            "build the wheel first (`python -m build`), or name the site-packages folder",
        )
        inputs.problems.append(problem)


def _endless(path: Path) -> bool:
    """Say whether a path is something else than a file, which may never end: a pipe or a device."""
    return path.exists() and not path.is_file()


def _sites(path: Path) -> list[Path]:
    """Return the folders of installed packages that `path` is or, as an environment, has."""
    infos = [entry for entry in path.iterdir() if entry.name.endswith(_INFO)]
    installed = len(infos) > 1 or any((info / "INSTALLER").is_file() for info in infos)
    if installed or (infos and path.resolve().name in {"site-packages", "dist-packages"}):
        return [path]
    below = {
        site.resolve(): site for site in sorted(path.glob("lib*/python3*/site-packages")) if site.is_dir()
    }
    return list(below.values())


def _recorded(site: Path, info: str) -> dict[str, Path]:
    """Return the files of an installed distribution as the members they were in its wheel."""
    stem = info.removesuffix(_INFO)
    with (site / info / "RECORD").open(encoding="utf-8", errors="replace", newline="") as stream:
        try:
            names = [posixpath.normpath(row[0]) for row in csv.reader(stream) if row]
        except csv.Error as error:
            raise MalformedError.of(
                f"its RECORD is not a list of comma-separated values ({error})"
            ) from error
    below = _below_environment(site)
    return {_member(name, stem, below): site / name for name in names if not name.endswith(".pyc")}


def _below_environment(site: Path) -> str:
    """Return where packages lie in an environment, whatever its Python; "" for another folder of them."""
    from gpuforge.audit.link import layout  # noqa: PLC0415  wheels are not installed

    tail = "/".join(Path(os.path.abspath(site)).parts[-3:])  # noqa: PTH100 - links stay as they were given
    return layout.SITE.removeprefix(f"{layout.ENVIRONMENT}/") if re.fullmatch(_SITE, tail) else ""


def _member(name: str, stem: str, below: str) -> str:
    """Name a file in a wheel by its name in RECORD, in which scripts and data are `../../../bin/x`, `../../libx.so`.

    `below` is the folder that RECORD's names start at, from the environment's own; "" if that is not known.
    """
    if not name.startswith(("../", "/")):
        return name
    outside = posixpath.normpath(f"{below}/{name}") if below and not name.startswith("/") else name
    outside = outside.lstrip("./") if outside.startswith("../") else outside.lstrip("/")
    if outside.startswith("bin/"):
        return f"{stem}.data/scripts/{outside.removeprefix('bin/')}"
    return f"{stem}.data/data/{outside}"


def _add_archive(path: Path, inputs: Inputs) -> None:
    from gpuforge.wheel import nested  # noqa: PLC0415  what is named as a wheel needs none of it

    if not nested.is_archive(path) or nested.is_wheel(path):
        inputs.found.append(Input.of(path))
        return
    before = len(inputs.found)
    for name, descriptor in nested.wheels(path):
        inputs.memory.append(descriptor)
        readable = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        inputs.found.append(Input(f"{path.name}/{name}", readable, PurePosixPath(path) / name, "nested"))
    if len(inputs.found) == before:
        problem = "there is no wheel in it", "build a wheel of it (`python -m build`), and audit that"
        inputs.problems.append(_problem(path, *problem))


def _problem(path: Path, message: str, hint: str) -> Diagnostic:
    return Diagnostic(message, Place(str(path)), hint)


def _named(found: Sequence[Input]) -> list[Input]:
    """Drop what was given twice, and name single files from the folder that has them all.

    So two of them see each other as their RPATH has it: `$ORIGIN/../lib`.
    """
    unique = list(
        {(i.form, i.info, i.place if i.form == "nested" else _real(i.path)): i for i in found}.values()
    )
    files = [i.path.absolute() for i in unique if i.form == "file"]
    if len({file.parent for file in files}) < 2:
        return unique
    base = os.path.commonpath([file.parent for file in files])
    return [
        i._replace(member=i.path.absolute().relative_to(base).as_posix()) if i.form == "file" else i
        for i in unique
    ]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _labelled(found: Sequence[Input]) -> list[Input]:
    """Give those of the same name as much of their path as tells them apart."""
    counts = Counter(i.label for i in found)
    return [i if counts[i.label] == 1 else i._replace(label=_label(i, found)) for i in found]


def _label(one: Input, found: Sequence[Input]) -> str:
    alike = [i for i in found if i.label == one.label and i is not one]
    own = _parts(one)
    others = [_parts(i) for i in alike]
    for count in range(len(PurePosixPath(one.label).parts) + 1, len(own)):
        if all(parts[-count:] != own[-count:] for parts in others):
            return "/".join(own[-count:])
    return str(one.place)


def _parts(one: Input) -> tuple[str, ...]:
    return PurePosixPath(os.path.abspath(one.place)).parts  # noqa: PTH100 - links stay as they were given
