"""Requirements and toolkits that cannot go together: a package whose wheels are of another CUDA major."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from packaging.requirements import Requirement

from gpuforge.cuda.carriers import cuda_majors, newest
from gpuforge.cuda.version import major_of
from gpuforge.diagnostics import Diagnostic
from gpuforge.manifest import braces
from gpuforge.manifest.axes import Point
from gpuforge.manifest.load import ManifestFile
from gpuforge.plan.cell import Cell

_KEYS = (("build", "requires"), ("wheel", "requires"), ("test", "requires"))


def impossible(file: ManifestFile, cells: Sequence[Cell]) -> Iterator[Diagnostic]:
    """Yield each point at which only wheels of another CUDA major than the toolkit's meet a requirement."""
    seen = set()
    for cell in cells:
        for point in cell.points:
            if (cell.cuda, point) not in seen:
                seen.add((cell.cuda, point))
                yield from islice(_at(file, cell, point), 1)


def _at(file: ManifestFile, cell: Cell, point: Point) -> Iterator[Diagnostic]:
    there = file.at(point).manifest
    for table, key in _KEYS:
        for number, text in enumerate(getattr(getattr(there, table), key)):
            if majors := _others(text, cell):
                yield _problem(file, cell, point, (table, key, number), text, majors)


def _others(text: str, cell: Cell) -> frozenset[int]:
    """Return the CUDA majors of a requirement's wheels if none of them is the toolkit's."""
    majors = cuda_majors(Requirement(text))
    return frozenset() if not cell.cuda or _major(cell) in majors else majors


def _problem(
    file: ManifestFile, cell: Cell, point: Point, at: tuple[str, str, int], text: str, majors: frozenset[int]
) -> Diagnostic:
    written = _written(file.data, at)
    axis = next((name for name, _ in point.values if name in written), None)
    found = " or ".join(map(str, sorted(majors)))
    message = f"the wheels of {text} on PyPI are for CUDA {found}, and [cuda.{cell.cuda}] is {cell.toolkit}"
    major, newest_release = _major(cell), _newest_release(text, cell)
    remove = f"or remove [cuda.{cell.cuda}]"
    if axis is None:
        hint = f"require a release for CUDA {major}{newest_release}, {remove}"
        return Diagnostic(message, file.place(*at), hint)
    if fitting := ", ".join(f'"{value}"' for value in _fitting(file, cell, axis, at)):
        hint = f"write axes = {{ {axis} = [{fitting}] }} below [cuda.{cell.cuda}]"
    else:
        hint = f"no value of [axes] {axis} has wheels for CUDA {major}: add one{newest_release}, {remove}"
    own = file.manifest.cuda.versions[cell.cuda].axes
    return Diagnostic(message, file.place("cuda", cell.cuda, *(("axes", axis) if axis in own else ())), hint)


def _newest_release(text: str, cell: Cell) -> str:
    name = Requirement(text).name
    version = newest(name, _major(cell))
    return f" ({name} {version} is the newest known)" if version else ""


def _fitting(file: ManifestFile, cell: Cell, axis: str, at: tuple[str, str, int]) -> list[str]:
    """Return the values of an axis at which a requirement has wheels for a cell's CUDA major."""
    found = []
    for value in file.manifest.axes[axis]:
        point = Point(((axis, value),), ((axis, value),))
        text = braces.fill_known(_text(file.data, at), point.names)
        if "{" not in text and not _others(text, cell):
            found.append(value)
    return found


def _written(data: Mapping[str, object], at: tuple[str, str, int]) -> set[str]:
    return {name.removesuffix("-next") for name in braces.names(_text(data, at))}


def _text(data: Mapping[str, object], at: tuple[str, str, int]) -> str:
    table, key, number = at
    found = data[table]
    return str(found[key][number])  # type: ignore[index]  # it was read from there


def _major(cell: Cell) -> int:
    return major_of(cell.toolkit)
