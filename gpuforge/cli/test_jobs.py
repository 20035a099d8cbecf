"""The jobs of `[test.matrix]`: tests of built wheels, on CI runners that may have a GPU."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from gpuforge.actions import trial
from gpuforge.cli.planning import Planned
from gpuforge.cuda import releases
from gpuforge.cuda.version import major_of
from gpuforge.manifest import kernels_wheels
from gpuforge.manifest.axes import Point
from gpuforge.manifest.load import FILE_NAME, ManifestFile
from gpuforge.manifest.model import GpuRunner
from gpuforge.plan.cell import Cell

WHEELS = "dist"  # a job finds the wheels of a cell in dist/CELL
_RUNS_GPUFORGE = "3.12"  # a Python that every wheel for all Pythons can be tested on


def test_jobs(
    made: Planned, path: Path, cells: Sequence[Cell], distribution: dict[str, str], *, reduced: bool
) -> list[dict[str, Any]]:
    """Return the test jobs of some cells; those without a GPU name no runner.

    `distribution` has each wheel's name, by the cell's id. With `reduced`, only the first test of each cell,
    and none on a GPU.
    """
    file = made.file
    runners = () if reduced else file.manifest.test.matrix.gpu
    found = []
    for cell in cells:
        for point in cell.points:
            tests = [*_tests(file, cell)]
            where = f"-{point.label}" if len(cell.points) > 1 else ""
            words = _command(file, path, cell, point, distribution[cell.id])
            for name, options in tests[:1] if reduced else tests:
                found.append(_job(cell, f"{cell.id}{where}-{name}", [*words, *options]))
            for runner in runners:
                if not too_old(runner, cell):
                    label = f"gpu-{runner.driver}" if runner.driver else "-".join(runner.runner)
                    for name, options in tests or [("newest", [])]:
                        job = _job(cell, f"{cell.id}{where}-{name}-{label}", [*words, "--gpu", *options])
                        found.append({**job, "runner": list(runner.runner)})
    return found


def too_old(runner: GpuRunner, cell: Cell) -> bool:
    """Return whether the driver of a runner is too old for a cell's wheel."""
    if not (runner.driver and cell.toolkit):
        return False
    floor, driver = Version(releases.release(cell.toolkit).driver_floor), Version(runner.driver)
    return driver.release < floor.release[: len(driver.release)]


def _tests(file: ManifestFile, cell: Cell) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the options of each test of a cell's wheel."""
    matrix = file.manifest.test.matrix
    for which in matrix.requirements:
        yield which, ["--requirements", which]
    minors = [minor for minor in matrix.minors if cell.toolkit and major_of(minor) == major_of(cell.toolkit)]
    for minor in minors:
        names = ",".join(dict.fromkeys(["cudart", *file.manifest.cuda.libraries]))
        yield f"cuda{minor}", ["--with", f"cuda-toolkit[{names}]=={minor}.*"]


def _command(file: ManifestFile, path: Path, cell: Cell, point: Point, distribution: str) -> list[str]:
    """Return the command that tests a cell's wheel, as far as all of its tests share it."""
    folder = f"{WHEELS}/{cell.id}"
    beside = [f"PIP_FIND_LINKS={folder}"] if kernels_wheels.is_split(file.manifest) else []
    manifest = path if path.name == FILE_NAME or path.suffix == ".toml" else path / FILE_NAME
    words = [*beside, "gpuforge", "test", f"{folder}/{distribution.replace('-', '_')}-*.whl"]
    words += ["--manifest", manifest.as_posix()]
    words += [word for name, value in point.values for word in ("--axis", f"{name}={value}")]
    return words + [
        word for each in trial.extras(file.at(point).manifest, cell) for word in ("--extra", each)
    ]


def _job(cell: Cell, name: str, words: Sequence[str]) -> dict[str, Any]:
    run = " ".join(word if "*.whl" in word else shlex.quote(word) for word in words)
    python = _RUNS_GPUFORGE if cell.python == "3" else cell.python
    return {"test": name, "cell": cell.id, "machine": cell.machine, "python": python, "run": run}
