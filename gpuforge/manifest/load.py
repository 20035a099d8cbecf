"""Reading `gpuforge.toml`: a frozen `Manifest` with its file's positions, or every error in it at once."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from gpuforge import datafile
from gpuforge.cuda import releases
from gpuforge.diagnostics import Diagnostic, Place
from gpuforge.errors import UsageError
from gpuforge.manifest import axes
from gpuforge.manifest.axes import MOST, Point, axis_problems, points
from gpuforge.manifest.checks import problems
from gpuforge.manifest.model import MachineType, Manifest
from gpuforge.manifest.positions import locate
from gpuforge.manifest.problem import Problem, printable
from gpuforge.manifest.syntax import TomlError, parse
from gpuforge.runtime.arch import Arch

FILE_NAME = "gpuforge.toml"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest together with the file that it was read from."""

    path: Path  # absolute
    manifest: Manifest
    text: str = field(repr=False)
    narrowed: tuple[Arch, ...] = ()  # the architectures that `manifest` was narrowed to
    # the manifest as in the file, if `manifest` was narrowed
    whole: Manifest | None = field(default=None, repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the parsed TOML

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the manifest start from."""
        return self.path.parent

    def at(self, point: Point) -> ManifestFile:
        """Return the manifest with the values that the axes have at a point; without axes it is always the same."""
        if not self.manifest.axes:
            return self
        there = Manifest.model_validate(axes.filled(self.data, point.names))
        whole = there.model_copy(update={"cuda": self.whole.cuda}) if self.whole else None
        return replace(self, manifest=there.model_copy(update={"cuda": self.manifest.cuda}), whole=whole)

    def on(self, machine: str) -> ManifestFile:
        """Return the manifest with the architectures for wheels of a machine type."""
        whole = self.whole.on(machine) if self.whole else None
        return replace(self, manifest=self.manifest.on(machine), whole=whole)

    def place(self, *keys: str | int) -> Place:
        """Return where a value stands in the file: `place("cuda", "13", "archs", 0)`.

        A value that is not written (a default) has the place of its nearest written ancestor.
        """
        return _place(self.path, locate(self.text).value(keys))


def load(path: Path, *, for_building: bool = True) -> ManifestFile:
    """Read a manifest: `path` is the file, or a folder that holds a `gpuforge.toml`.

    Only `for_building`, the folders that it names must be beside it.

    Raises UsageError with a diagnostic for everything that is wrong with it.
    """
    file = _find(path)
    content = _read(file)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode()) + 1
        place = _place(file, (before.count(b"\n") + 1, column))
        message = f"the file is not UTF-8: byte 0x{content[error.start]:02x} is not part of a character"
        raise UsageError.of(message, place=place, hint="save it as UTF-8 in your editor") from None
    data, manifest = _parse(text, file, file.parent if for_building else None)
    return _spelled_out(ManifestFile(file, manifest, text, data=data))


def _spelled_out(file: ManifestFile) -> ManifestFile:
    """Return the manifest with the architectures that "common" stands for; raises UsageError for unknown toolkits."""
    versions = dict(file.manifest.cuda.versions)
    for name, version in versions.items():
        own = {machine: table for machine in get_args(MachineType) if (table := version.own(machine))}
        if releases.COMMON in {*version.archs, *(arch for table in own.values() for arch in table.archs)}:
            try:
                release = releases.release(version.toolkit)
            except UsageError as error:
                place = file.place("cuda", name, "toolkit")
                raise UsageError.all_of(each._replace(place=place) for each in error.diagnostics) from error
            tables = {
                machine: table.model_copy(update={"archs": releases.spelled_out(table.archs, release)})
                for machine, table in own.items()
            }
            archs = releases.spelled_out(version.archs, release)
            versions[name] = version.model_copy(update={**tables, "archs": archs})
    if versions == file.manifest.cuda.versions:
        return file
    cuda = file.manifest.cuda.model_copy(update={"versions": versions})
    return replace(file, manifest=file.manifest.model_copy(update={"cuda": cuda}))


def _find(path: Path) -> Path:
    try:
        file = path.absolute()
        if file.is_dir() and (file.name != FILE_NAME):
            file /= FILE_NAME
        mode = file.stat().st_mode
    except FileNotFoundError:
        inside = path.is_dir()
        where = f"no {FILE_NAME} in {file.parent}" if inside else f"{_shown(file)} does not exist"
        hint = f"name a {FILE_NAME}, or the folder that it is in; `gpuforge init` writes a first one"
        raise UsageError.of(where, hint=hint) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise UsageError.of(
            f"{_shown(file)} is {kind}", hint=f"name a {FILE_NAME}, or the folder that it is in"
        )
    return file


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(datafile.LARGEST + 1)
    except OSError as error:
        raise _unreadable(file, error) from None
    if len(content) > datafile.LARGEST:
        raise UsageError.of(f"{_shown(file)} is larger than 1 MiB", hint="check that it is a manifest")
    return content


def _unreadable(path: Path, error: OSError | ValueError) -> UsageError:
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    hint = "check the path, its owner and its permissions"
    return UsageError.of(f"{_shown(path)} cannot be read: {reason}", hint=hint)


def _parse(text: str, file: Path, folder: Path | None) -> tuple[Mapping[str, Any], Manifest]:
    try:
        data = parse(text)
    except TomlError as problem:
        place = _place(file, problem.position)
        raise UsageError.of(problem.message, place=place, hint=problem.hint) from None
    manifest, found = check(data, folder)
    if manifest is None or found:
        raise UsageError.all_of(_diagnostics(found, text, file))
    return data, manifest


def check(data: Mapping[str, Any], folder: Path | None) -> tuple[Manifest | None, list[Problem]]:
    """Return the manifest of the parsed TOML, if it is valid, and its problems.

    It is checked at each point of its axes, until one has problems; the manifest is that of the first point. The files
    that it names are looked for in `folder`, unless that is None.
    """
    manifests: list[Manifest | None] = []
    found = list(axis_problems(data))
    explained = {problem.path for problem in found if not problem.at_key}
    for point in islice(points(data), MOST):
        there = axes.filled(data, point.names)
        others: list[Problem] = []
        try:
            manifests.append(Manifest.model_validate(there))
        except ValidationError as error:
            from gpuforge.manifest.explain import explain  # noqa: PLC0415  most manifests have no error

            manifests.append(None)
            others += explain(error, there)
        others += problems(there, folder)
        found += [problem for problem in others if problem.path not in explained]
        if found:
            break
    return manifests[0], found


def _diagnostics(found: list[Problem], text: str, file: Path) -> list[Diagnostic]:
    """Place each problem, in the order of the file."""
    positions = locate(text)
    placed = [((positions.key if p.at_key else positions.value)(p.path) or (1, 1), p) for p in found]
    placed.sort(key=lambda pair: pair[0])
    return list(
        dict.fromkeys(
            Diagnostic(printable(p.message), _place(file, at), printable(p.hint)) for at, p in placed
        )
    )


def _place(file: Path, position: tuple[int, int] | None) -> Place:
    line, column = position or (0, 0)
    return Place(_shown(file), line, column)


def _shown(path: Path) -> str:
    """Return the path as a message shows it: relative to the working directory when it is inside."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return str(path)
