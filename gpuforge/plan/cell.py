"""Cells: the points of the matrix, and the choice among them and among their architectures."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from typing import Literal, NamedTuple, TypeVar

from gpuforge.cpython import CPython
from gpuforge.cuda.targets import Target
from gpuforge.cuda.version import is_of
from gpuforge.diagnostics import Diagnostic
from gpuforge.errors import UsageError
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.axes import Point, Values, label, wheels
from gpuforge.manifest.load import ManifestFile
from gpuforge.manifest.model import CudaOfMachine, CudaVersion, Manifest
from gpuforge.runtime.arch import Arch

OfMachine = TypeVar("OfMachine", CudaVersion, CudaOfMachine)


class Cell(NamedTuple):
    """One wheel to build: a Python, a CUDA toolkit, a machine, and values of the manifest's axes.

    `python` is "3.11", or "3" when one wheel serves every Python; `cuda` is the manifest's name of the
    toolkit ("13"), `toolkit` its version ("13.0"), both "" for a package without CUDA; `naming` is the strategy for the
    wheel's name. `build_id` is the id without the strategy, which wheels that differ only in their names share. `axes`
    are the values that are its own ("torch", "2.11"). It is tested at each of `points`, and built at the first.
    """

    id: str
    build_id: str
    python: str
    cuda: str
    toolkit: str
    machine: str
    naming: str
    axes: Values = ()
    points: tuple[Point, ...] = (Point(),)

    @property
    def point(self) -> Point:
        """The point of the manifest's axes at which the wheel is built."""
        return self.points[0]


class LeftOutReason(NamedTuple):
    """Why a cell of the matrix is not built.

    "not-selected" has the facts `option` ("--cuda") and `values`, for `--archs` also `cuda` (the toolkit's name in the
    manifest) and `archs` (what it has); "missing" has `problems`, one message for each place to build in, and
    `hints`, what to do about them.
    """

    kind: Literal["not-selected", "missing"]
    facts: Mapping[str, tuple[str, ...]]


class LeftOut(NamedTuple):
    """A cell of the matrix that is not built, and why."""

    cell: Cell
    reason: LeftOutReason


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's choice of cells, by toolkit ("12": every 12.x, "12.4": that one), by Python, by axes ("torch=2.11"),
    by machine type, or by id; and the architectures for a quick try. With `allow_missing`, chosen cells may be left
    out.
    """

    cuda: Sequence[str] = ()
    python: Sequence[str] = ()
    axis: Sequence[str] = ()
    machine: Sequence[str] = ()
    archs: Sequence[str] = ()
    cell: str | None = None
    allow_missing: bool = False


class Selection(NamedTuple):
    """The cells to build and those left out, in the manifest's order.

    `requested` are the dimensions that the user chose by hand, "cuda", "python" and "machine": what they need must be
    there.
    """

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]
    requested: frozenset[str] = frozenset()

    @property
    def missing(self) -> tuple[LeftOut, ...]:
        """The cells that were wanted and cannot be built here."""
        return tuple(item for item in self.left_out if item.reason.kind == "missing")


def machines(manifest: Manifest, here: str) -> tuple[str, ...]:
    """Return the machine types of the manifest's wheels, this machine's (`here`) first."""
    return tuple(sorted(manifest.wheel.machines or (here,), key=lambda machine: machine != here))


def matrix(manifest: Manifest, here: str) -> tuple[Cell, ...]:
    """Return every cell of the manifest, in its order; `here` is this machine's type ("x86_64")."""
    return tuple(cell for machine in machines(manifest, here) for cell in _of_machine(manifest, machine))


def _of_machine(manifest: Manifest, machine: str) -> Iterator[Cell]:
    package = manifest.package
    pythons = ("3",) if package.abi == "none" else tuple(package.python)
    plain = kernels_wheels.is_split(manifest) or not manifest.cuda.versions
    namings = ("plain",) if plain else manifest.wheel.naming
    toolkits = [(name, each.toolkit, each.axes) for name, each in manifest.cuda.versions.items()]
    spans = manifest.wheel.spans
    for name, toolkit, axes in toolkits or [("", "", {})]:
        for python, points in product(pythons, [*wheels({**manifest.axes, **axes}, spans)]):
            own = _own(points[0], spans)
            cuda = f"cu{toolkit}" if toolkit else ""
            build_id = "-".join(filter(None, [_tag(python, package.abi), cuda, label(own), machine]))
            for naming in namings:
                own_id = f"{build_id}-{naming}" if len(namings) > 1 else build_id
                yield Cell(own_id, build_id, python, name, toolkit, machine, naming, own, points)


def _own(point: Point, spans: Sequence[str]) -> Values:
    return tuple((name, value) for name, value in point.values if name not in spans)


def select(file: ManifestFile, here: str, choice: Choice = Choice()) -> Selection:
    """Choose cells of the matrix; `here` is this machine's type.

    If the manifest is narrowed to some architectures, cells whose toolkit has none of them are left out.

    Raises UsageError for a choice that is not in the manifest, with the possible ones.
    """
    cuda, python, cell = choice.cuda, choice.python, choice.cell
    if cell is not None and (cuda or python or choice.axis or choice.machine):
        raise UsageError.of("--cell names one cell", hint="leave --cuda, --python, --axis and --machine out")
    cells = matrix(file.manifest, here)
    _check_machine(file, here, choice.machine)
    _check_cuda(file, cuda)
    _check_python(file, python)
    chosen_values = _chosen_values(file, choice.axis)
    if cell is not None and cell not in {c.id for c in cells}:
        raise UsageError.of(
            f"the manifest has no cell {cell!r}",
            hint=_nearest(cell, [c.id for c in cells]),
        )
    chosen, left_out = [], []
    for candidate in cells:
        each_python = file.manifest.package.abi is None  # else one wheel serves several
        reason = _not_selected(candidate, choice, python if each_python else (), chosen_values)
        if reason:
            left_out.append(LeftOut(candidate, reason))
        else:
            chosen.append(candidate)
    chosen, without = _with_archs(file, chosen, requested=bool(cuda or cell))
    by_hand = {"cuda": cuda or cell, "python": python or cell, "machine": choice.machine or cell}
    requested = frozenset(name for name, given in by_hand.items() if given and not choice.allow_missing)
    return Selection(tuple(chosen), (*left_out, *without), requested)


def _with_archs(
    file: ManifestFile, cells: list[Cell], *, requested: bool
) -> tuple[list[Cell], list[LeftOut]]:
    """Return the cells whose toolkit has an architecture of `--archs`, and the others.

    Raises UsageError for an architecture that no chosen toolkit has, and, if the toolkits were `requested` by the
    user, for a toolkit that has none of them.
    """
    if not file.narrowed:
        return cells, []
    versions = (file.whole or file.manifest).cuda.versions
    tables = {(cell.cuda, cell.machine): versions[cell.cuda].on(cell.machine) for cell in cells}
    found = {arch for table in tables.values() for arch in having(table, file.narrowed)}
    numbers = tuple(arch.number for arch in file.narrowed)
    lacking = [arch.number for arch in file.narrowed if arch not in found]
    without = {key: table.archs for key, table in tables.items() if not having(table, file.narrowed)}
    if not (lacking or without):
        return cells, []
    if lacking:
        raise UsageError.of(
            f"--archs {','.join(lacking)}: no chosen toolkit compiles for {'it' if len(lacking) == 1 else 'them'}",
            hint="; ".join(
                dict.fromkeys(
                    f"[cuda.{name}] has {', '.join(table.archs)}" for (name, _), table in tables.items()
                )
            ),
            place=file.place("cuda"),
        )
    if requested:
        raise UsageError.all_of(
            Diagnostic(
                f"--archs {','.join(numbers)}: [cuda.{name}] compiles for none of them",
                file.place("cuda", name, "archs"),
                f"it has {', '.join(archs)}; choose others, or leave it out of --cuda",
            )
            for (name, _), archs in without.items()
        )
    left_out = [
        LeftOut(cell, _by_option("--archs", numbers, cuda=(cell.cuda,), archs=archs))
        for cell in cells
        if (archs := without.get((cell.cuda, cell.machine)))
    ]
    return [cell for cell in cells if (cell.cuda, cell.machine) not in without], left_out


def _tag(python: str, abi: str | None) -> str:
    if abi == "none":
        return "py3"
    tag = CPython.parse(python).tag
    return f"{tag}-{abi}" if abi else tag


def _check_machine(file: ManifestFile, here: str, chosen: Sequence[str]) -> None:
    known = machines(file.manifest, here)
    for machine in chosen:
        if machine not in known:
            raise UsageError.of(
                f"--machine {machine}: the manifest has no wheels for it",
                hint=f"it has {', '.join(known)}; [wheel] machines lists them",
                place=file.place("wheel", "machines"),
            )


def _check_cuda(file: ManifestFile, cuda: Sequence[str]) -> None:
    known = [version.toolkit for version in file.manifest.cuda.versions.values()]
    for requested in cuda:
        if not any(is_of(toolkit, requested) for toolkit in known):
            raise UsageError.of(
                f"--cuda {requested}: the manifest has no such toolkit",
                hint=f"it has {', '.join(known)}" if known else "it has no [cuda]",
                place=file.place("cuda"),
            )


def _check_python(file: ManifestFile, python: Sequence[str]) -> None:
    package = file.manifest.package
    if package.abi == "none":
        return  # one wheel serves every Python: any choice is that wheel
    if package.abi:
        floor = CPython.parse(package.python[0])
        for requested in python:
            if _parsed(requested) < floor:
                raise UsageError.of(
                    f"--python {requested}: the wheel's stable ABI starts at {package.python[0]}",
                    hint=f"choose {package.python[0]} or newer",
                    place=file.place("package", "python"),
                )
        return
    for requested in python:
        if requested not in package.python:
            raise UsageError.of(
                f"--python {requested}: the manifest has no such Python",
                hint=f"it has {', '.join(package.python)}",
                place=file.place("package", "python"),
            )


def _parsed(python: str) -> CPython:
    try:
        return CPython.parse(python)
    except ValueError:
        raise UsageError.of(f"--python {python}: not a version", hint="write it like 3.12") from None


def _chosen_values(file: ManifestFile, axis: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of `--axis` by the name of the axis; raises UsageError for those that the manifest lacks."""
    manifest = file.manifest
    found: dict[str, list[str]] = {}
    for text in axis:
        name, _, value = text.partition("=")
        if name not in manifest.axes:
            has = f"it has {', '.join(manifest.axes)}" if manifest.axes else "it has no [axes]"
            raise UsageError.of(f"--axis {text}: the manifest has no axis {name!r}", hint=has)
        if name in manifest.wheel.spans:
            raise UsageError.of(
                f"--axis {text}: one wheel serves every value of this axis",
                hint="leave it out; the wheel is tested with each value",
                place=file.place("wheel", "spans"),
            )
        if value not in manifest.axes[name]:
            raise UsageError.of(
                f"--axis {text}: the axis has no such value",
                hint=f"write one of {', '.join(f'{name}={each}' for each in manifest.axes[name])}",
                place=file.place("axes", name),
            )
        found.setdefault(name, []).append(value)
    return found


def _not_selected(
    cell: Cell, choice: Choice, python: Sequence[str], axis: Mapping[str, Sequence[str]]
) -> LeftOutReason | None:
    if choice.cell is not None:
        return None if cell.id == choice.cell else _by_option("--cell", (choice.cell,))
    if choice.machine and cell.machine not in choice.machine:
        return _by_option("--machine", choice.machine)
    if choice.cuda and not any(is_of(cell.toolkit, w) for w in choice.cuda):
        return _by_option("--cuda", choice.cuda)
    if python and cell.python not in python:
        return _by_option("--python", python)
    for name, value in cell.axes:
        if value not in axis.get(name, [value]):
            return _by_option("--axis", [f"{name}={each}" for each in axis[name]])
    return None


def _by_option(option: str, values: Sequence[str], **facts: tuple[str, ...]) -> LeftOutReason:
    return LeftOutReason("not-selected", {"option": (option,), "values": tuple(values), **facts})


def _nearest(requested: str, known: Sequence[str]) -> str:
    close = get_close_matches(requested, known, n=3, cutoff=0.5)
    return f"nearest: {', '.join(close)}" if close else f"it has {', '.join(known)}"


def narrow(file: ManifestFile, archs: Sequence[str]) -> ManifestFile:
    """Return the manifest with the architectures of `archs` ("90", "sm_90a") alone; without any, as it is.

    A toolkit keeps its PTX when that is for one of them. One that has none of them stays as it is: `plan.cell.select`
    leaves its cells out. Raises UsageError for an invalid architecture.
    """
    if not archs:
        return file
    if not file.manifest.cuda.versions:
        raise UsageError.of(
            f"--archs {','.join(archs)}: the manifest has no [cuda]", hint="leave the option out"
        )
    chosen = tuple(dict.fromkeys(_arch(text) for text in archs))
    versions = {name: _narrowed(version, chosen) for name, version in file.manifest.cuda.versions.items()}
    cuda = file.manifest.cuda.model_copy(update={"versions": versions})
    manifest = file.manifest.model_copy(update={"cuda": cuda})
    return replace(file, manifest=manifest, narrowed=chosen, whole=file.manifest)


def having(version: CudaVersion, archs: Container[Arch]) -> tuple[Arch, ...]:
    """Return the toolkit's architectures that are among `archs`, in the toolkit's order."""
    return tuple(target.arch for target in version.targets if target.real and target.arch in archs)


def _narrowed(version: CudaVersion, chosen: Container[Arch]) -> CudaVersion:
    own = {name: _with(table, chosen) for name in ("x86_64", "aarch64") if (table := version.own(name))}
    return _with(version, chosen).model_copy(update=own)


def _with(table: OfMachine, chosen: Container[Arch]) -> OfMachine:
    """Return a table with those of its architectures that are chosen; as it is if there are none."""
    archs = tuple(text for text in table.archs if Target.parse(text).arch in chosen)
    ptx = table.ptx if table.ptx and Arch.parse(table.ptx) in chosen else None
    return table.model_copy(update={"archs": archs, "ptx": ptx}) if archs else table


def _arch(text: str) -> Arch:
    try:
        return Arch.parse(text)
    except ValueError:
        raise UsageError.of(
            f"--archs {text}: not a GPU architecture", hint="write it as in --archs 90 or 80,90a"
        ) from None
