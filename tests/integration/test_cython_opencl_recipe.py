"""recipes/cython-opencl from end to end: built, audited, installed beside PoCL, and run with and without OpenCL."""

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import builds
import pytest

from gpuforge.audit import audit
from gpuforge.manifest.load import load
from gpuforge.plan.expectation import expectation

RECIPE = builds.RECIPES / "cython-opencl"
POCL = ("pocl-binary-distribution==3.0", "siphash24")
pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.slow, pytest.mark.xdist_group("recipes")]
Build = Callable[[Path], Path]
LAUNCH = """
import numpy as np
from ellipse import device
solve = device.kernel()
n, memory = 100, np.linspace(0, 1, 200)
problem = np.zeros(4, np.int32)
mean, anomaly = memory[:n], memory[n:]  # neighbours in one array
solve.launch(2, 64, np.uint64(n), mean, mean / 2, anomaly, problem)
print(bool(np.allclose(anomaly - mean / 2 * np.sin(anomaly), mean)))
solve.launch(2, 64, np.uint64(n), memory[:n], np.zeros(n), memory[:n], problem)  # in place: e = 0 changes nothing
print(bool(np.allclose(memory[:n], np.linspace(0, 1, 200)[:n])))
try:
    solve.launch(2, 64, np.uint64(n), memory[:n], np.zeros(n), memory[50 : 50 + n], problem)
except ValueError as error:
    print(error)
"""
BACKEND = """
from ellipse import device
print(device.kernel().backend)
"""

SOLVED = """
import numpy as np, ellipse
mean, e = np.linspace(0, 3, 10**6), np.full(10**6, 0.5)
found = ellipse.eccentric_anomaly(mean, e)
print(np.allclose(found - e * np.sin(found), mean))
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Build:
    folder = tmp_path_factory.mktemp("ellipse")

    def run(manifest: Path) -> Path:
        output = folder / f"dist{len(list(folder.glob('dist*')))}"
        builds.build(manifest, "--python", builds.PYTHON, "-o", output, cache=store)
        (wheel,) = output.glob("*.whl")
        return wheel

    return run


@pytest.fixture(scope="module")
def wheel(build: Build) -> Path:
    return build(RECIPE)


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, what it declares with its extra, and PoCL: an OpenCL driver for the CPU."""
    folder = tmp_path_factory.mktemp("site") / "venv"
    builds.environment(folder, f"{wheel}[opencl]", "pytest", *POCL)
    return folder


def python(site: Path, folder: Path, *argv: object, **env: str) -> str:
    own = {"PATH": os.defpath, "HOME": str(folder), "GPUFORGE_KERNEL_HOME": str(folder / "kernels")}
    done = builds.run(site / "bin" / "python", *argv, cwd=folder, env=own, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_wheel_has_no_trace_of_cuda_and_the_audit_finds_nothing(wheel):
    assert wheel.name.startswith(f"ellipse-1.0-cp{builds.PYTHON.replace('.', '')}-")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        required = [
            line for line in archive.read(metadata).decode().splitlines() if line.startswith("Requires-Dist")
        ]
    assert required == ["Requires-Dist: numpy", 'Requires-Dist: pyopencl>=2022.1; extra == "opencl"']
    report = audit([wheel], expectation=expectation(load(RECIPE)))
    assert [finding for finding in report.findings if finding.severity == "error"] == []


@pytest.mark.usefixtures("pocl")
def test_its_own_tests_pass_on_an_opencl_device(site, tmp_path):
    shutil.copytree(RECIPE / "tests", tmp_path / "tests")
    said = python(site, tmp_path, "-m", "pytest", "-q", "-rs", "tests")
    assert said.splitlines()[-1].startswith("32 passed, 1 skipped"), said


@pytest.mark.usefixtures("pocl")
def test_arrays_that_overlap_in_a_launch(site, tmp_path):
    first, second, third = python(site, tmp_path, "-c", LAUNCH).splitlines()
    assert (first, second) == ("True", "True")
    assert third.startswith("arguments 1 and 3 overlap in memory, and one of them can be written: ")


@pytest.mark.usefixtures("pocl")
def test_a_folder_in_the_users_options_is_looked_into_each_time(site, tmp_path):
    """The header that it leads to may change: nothing that was compiled with it is kept."""
    (tmp_path / "mine").mkdir()
    options = f"-I{tmp_path / 'mine'}"
    assert python(site, tmp_path, "-c", BACKEND, GPUFORGE_OPENCL_OPTIONS=options) == "opencl\n"
    assert not list((tmp_path / "kernels").rglob("*.kernel"))
    python(site, tmp_path, "-c", BACKEND)
    assert len(list((tmp_path / "kernels").rglob("*.kernel"))) == 1


@pytest.mark.usefixtures("pocl")
def test_it_may_be_installed_below_a_folder_with_a_space(site, wheel, tmp_path):
    """OpenCL's options have no quotes, and the kernel includes headers."""
    folder = tmp_path / "my programs"
    builds.install_to(folder, wheel)
    said = python(site, tmp_path, "-c", BACKEND + "print(device.__file__)", PYTHONPATH=str(folder))
    assert said == f"opencl\n{folder}/ellipse/device.py\n"


def test_a_build_for_other_devices_runs_the_native_loop(site, build, tmp_path):
    """PoCL has a CPU: a build for CPUs uses it, one for GPUs does not."""
    copy, before = builds.copy_recipe("cython-opencl", tmp_path), '# devices = ["cpu"]'
    for kind, expected in (("cpu", "used     OpenCL source"), ("gpu", "used     CPU")):
        builds.edit(copy, (before, before := f'devices = ["{kind}"]'))
        builds.install(site / "bin/python", "--force-reinstall", "--no-deps", build(copy))
        said = python(site, tmp_path, "-m", "ellipse._gpuforge", "explain")
        assert expected in said
    assert "refused  OpenCL source  its devices must be gpu; OpenCL has " in said
    python(
        site,
        tmp_path,
        "-c",
        "import numpy, ellipse; ellipse.eccentric_anomaly(numpy.ones(10**6), numpy.zeros(10**6))",
    )


def test_on_devices_that_lack_an_extension_the_native_loop_runs(site, build, tmp_path):
    """As on a GPU without double precision: PoCL's CPU has it, and no half precision."""
    copy = builds.copy_recipe("cython-opencl", tmp_path)
    builds.edit(copy, ('extensions = ["cl_khr_fp64"]', 'extensions = ["cl_khr_fp64", "cl_khr_fp16"]'))
    builds.install(site / "bin/python", "--force-reinstall", "--no-deps", build(copy))
    said = python(site, tmp_path, "-m", "ellipse._gpuforge", "explain")
    assert "used     CPU" in said
    assert "refused  OpenCL source  needs cl_khr_fp16, which no device of OpenCL has: " in said
    assert python(site, tmp_path, "-c", SOLVED) == "True\n"


def test_a_build_without_opencl(build, site, tmp_path):
    wheel = build(RECIPE / "native.toml")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "_gpuforge" in name or name.endswith(".cl")]
    builds.install(site / "bin/python", "--force-reinstall", "--no-deps", wheel)
    shutil.copytree(RECIPE / "tests", tmp_path / "tests")
    said = python(site, tmp_path, "-m", "pytest", "-q", "tests")
    assert said.splitlines()[-1].startswith("14 passed, 19 skipped"), said
    assert "this build of ellipse has no OpenCL kernels" in python(site, tmp_path, "-m", "ellipse")
