"""`gpuforge build` tests what it built: a wheel that fails is kept back with one clear message, the others are not."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builds import CELL, DEVICES, GPUFORGE, PYTHON, run

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]


class Project:
    """A copy of the project, to be changed and built."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = shutil.copytree(DEVICES, folder)
        self.cache = cache

    def add(self, text: str, file: str = "gpuforge.toml") -> None:
        path = self.folder / file
        path.write_text((path.read_text() if path.exists() else "") + text)

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = ("--cuda", 13, "--python", PYTHON, "-o", self.folder / "dist", *arguments)
        return run(  # the project's own tracebacks are shown
            GPUFORGE, "build", self.folder, *options, GPUFORGE_CACHE_DIR=self.cache
        )

    @property
    def wheels(self) -> list[str]:
        return sorted(path.name.partition("-cp")[0] for path in self.folder.glob("dist/*.whl"))


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> Project:
    return Project(tmp_path / "devices", cache)


def test_the_result_says_what_was_tested(project):
    (project.folder / "tests").mkdir()
    project.add(
        "import devices\n\ndef test_it_counts():\n    assert devices.count()\n", "tests/test_count.py"
    )
    project.add('\n[test]\nrequires = ["pytest"]\nsources = ["tests"]\ncommand = ["pytest", "-q", "tests"]\n')
    done = project.build("--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    (test,) = result["tests"]
    assert (test["cell"], test["state"], test["import"]) == (CELL, "passed", "devices")
    assert test["command"] == ["pytest", "-q", "tests"]
    assert test["counts"] == {"passed": 1}
    names = [package.partition(" ")[0] for package in test["packages"]]
    assert names == ["devices_cu13", "nvidia_cuda_runtime"]  # what the command needs came afterwards
    again = project.build()
    assert again.returncode == 0, again.stderr
    assert "✓ test: pytest -q tests: 1 passed (" in again.stdout
    assert "nothing to do" in again.stdout


def test_a_dependency_that_is_not_declared_keeps_the_wheel_back(project):
    project.add("import packaging\n", "src/devices/__init__.py")
    project.add('\n[test]\nrequires = ["pytest"]\ncommand = ["pytest", "--version"]\n')  # which needs it too
    done = project.build()
    assert done.returncode == 1
    assert (
        f"  why:  {CELL}: `import devices` failed with exit status 1: "
        "ModuleNotFoundError: No module named 'packaging'\n"
    ) in done.stderr
    assert (
        "  hint: the wheel does not declare it: add the package of 'packaging' to the project's "
        "dependencies, or to [wheel] requires\n"
    ) in done.stderr
    assert f"kept back, as its test did not pass: {CELL}\n" in done.stderr
    assert "0 of 1 wheel" in done.stdout
    assert project.wheels == []

    untested = project.build("--no-test")
    assert untested.returncode == 0, untested.stderr
    assert "the wheels are not tested, as --no-test says" in untested.stderr
    assert project.wheels == ["devices_cu13-0.1.0"]

    (project.folder / "dist" / "devices_cu13-0.0.9-cp311-cp311-linux_x86_64.whl").touch()  # the user's own
    again = project.build()  # which tests what lies there
    assert again.returncode == 1
    (wheel,) = (project.folder / "dist" / ".set-aside").glob("*.whl")
    there = project.folder / "dist" / wheel.name
    assert f"the older {there.name} is now in {wheel.parent}/" in again.stderr
    assert project.wheels == ["devices_cu13-0.0.9"]


def test_a_failing_test_fails_only_its_cell(project):
    program = "import importlib.metadata as m; assert m.version('devices') == '0.1.0+cu13', 'another name'"
    project.add(f'\n[wheel]\nnaming = ["suffix", "local"]\n[test]\ncommand = ["python", "-c", "{program}"]\n')
    done = project.build("--json")
    assert done.returncode == 1
    suffix, local = f"{CELL}-suffix", f"{CELL}-local"
    message = f"{suffix}: `python -c "
    assert f"  why:  {message}" in done.stderr
    assert "PackageNotFoundError: No package metadata was found for devices\n" in done.stderr
    result = json.loads(done.stdout)
    assert {test["cell"]: test["state"] for test in result["tests"]} == {suffix: "failed", local: "passed"}
    (failed,) = (action for action in result["actions"] if action["state"] == "failed")
    assert failed["id"] == f"{suffix}/test"
    assert "PackageNotFoundError" in Path(failed["log"]).read_text()
    assert [wheel["cell"] for wheel in result["wheels"]] == [local]
    assert project.wheels == ["devices-0.1.0+cu13"]


def test_a_requirement_that_nobody_has(project):
    project.add('\n[test]\nrequires = ["packaging>=9999"]\ncommand = ["python", "--version"]\n')
    done = project.build()
    assert done.returncode == 1
    assert (
        "  why:  what the tests need cannot be met by wheels: packaging>=9999: "
        "No matching distribution found for packaging>=9999\n"
    ) in done.stderr
    assert f"kept back, as its test did not pass: {CELL}\n" in done.stderr
    assert project.wheels == []
