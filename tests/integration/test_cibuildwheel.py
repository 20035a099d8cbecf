"""cibuildwheel itself builds a project that was changed as docs/cibuildwheel.md says."""

import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from builds import run
from uv import find_uv_bin

from gpuforge.toolkits.providers.pypi import fetch
from gpuforge.toolkits.select import select
from gpuforge.wheel import metadata

ROOT = Path(__file__).parents[2]
VERSION = "4.3.5"
PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "small-fft"
version = "1.0"
[tool.setuptools]
packages = ["small"]
"""
SETUP = """
import subprocess
from pathlib import Path
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class Nvcc(build_ext):
    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        include = [f"-I{path}" for path in self.include_dirs]
        subprocess.check_call([
            "/usr/local/cuda/bin/nvcc", "-shared", "-Xcompiler=-fPIC", "-cudart=shared", "-arch=sm_90", *include,
            *ext.sources, "-o", str(target), "-L/usr/local/cuda/lib64", "-lcufft",
        ])


setup(ext_modules=[Extension("small._fft", ["small/fft.cu"])], cmdclass={"build_ext": Nvcc})
"""
SOURCE = """
#include <Python.h>
#include <cufft.h>
__global__ void scale(float *x) { x[threadIdx.x] *= 2; }
static PyObject *plan(PyObject *, PyObject *) {
  cufftHandle handle;
  scale<<<1, 32>>>(nullptr);
  return PyLong_FromLong(cufftPlan1d(&handle, 256, CUFFT_C2C, 1));
}
static PyMethodDef methods[] = {{"plan", plan, METH_NOARGS, ""}, {nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_fft", "", -1, methods};
PyMODINIT_FUNC PyInit__fft() { return PyModule_Create(&module); }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with nvcc, its settings of cibuildwheel those of the page with this gpuforge."""
    folder = tmp_path / "project"
    (folder / "small").mkdir(parents=True)
    (folder / "small" / "__init__.py").write_text("from ._fft import plan\n")
    (folder / "small" / "fft.cu").write_text(SOURCE)
    (folder / "setup.py").write_text(SETUP)
    made = tmp_path / "gpuforge"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = made.glob("*.whl")
    _, after = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "cibuildwheel.md").read_text(), re.DOTALL)
    settings = after.replace("gpuforge @ git+https://git.example.org/gpuforge@COMMIT", str(wheel))
    settings = settings.replace("git+https://git.example.org/gpuforge@COMMIT", str(wheel))
    (folder / "pyproject.toml").write_text(PROJECT + settings)
    return folder


def program(folder: Path, cache: Path) -> Path:
    """Install cibuildwheel, and the virtualenv that it would download from GitHub."""
    subprocess.run([find_uv_bin(), "venv", "-q", f"--python={sys.executable}", folder], check=True)
    pip = [find_uv_bin(), "pip", "install", "-q"]
    subprocess.run([*pip, f"--python={folder}/bin/python", f"cibuildwheel=={VERSION}"], check=True)
    (pinned,) = folder.glob("lib/python3*/site-packages/cibuildwheel/resources/virtualenv.toml")
    version = tomllib.loads(pinned.read_text())["default"]["version"]
    target = cache / f"virtualenv-{version}.pyz"
    subprocess.run([*pip, f"--target={target}", f"virtualenv=={version}"], check=True)
    (target / "__main__.py").write_text("from virtualenv.__main__ import run_with_catch\nrun_with_catch()\n")
    return folder / "bin" / "cibuildwheel"


@pytest.mark.docker
@pytest.mark.network
@pytest.mark.toolkit
def test_cibuildwheel_repairs_and_audits_with_gpuforge(tmp_path, project, bookworm_image):
    cuda = tmp_path / "cuda"
    fetch(select("13.0", provider=None, libraries=["cufft"], machine=platform.machine()).source, cuda)
    machine = [Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pip.conf"), Path("/opt/pypi")]
    mounts = [f"-v{path}:{path}:ro" for path in (*machine, tmp_path / "gpuforge") if path.exists()]
    env = {
        "CIBW_BUILD": "cp311-manylinux_x86_64",
        "CIBW_MANYLINUX_X86_64_IMAGE": bookworm_image,
        "CIBW_CONTAINER_ENGINE": f"docker; create_args: {' '.join(mounts)} -v{cuda}:/usr/local/cuda:ro "
        "--network=host; disable_host_mount: true",
        "CIBW_ENVIRONMENT_PASS_LINUX": "PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_INDEX_URL",
        "CIBW_CACHE_PATH": str(tmp_path / "cache"),
        "CIBW_TEST_COMMAND": 'python -c "import small"',  # nothing but the declared packages has the libraries
    }
    (tmp_path / "cache").mkdir()
    command = (
        program(tmp_path / "cibuildwheel", tmp_path / "cache"),
        "--platform=linux",
        "--output-dir=dist",
    )
    done = run(*command, cwd=project, **env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (wheel,) = project.glob("dist/*.whl")
    assert wheel.name == "small_fft-1.0-cp311-cp311-manylinux1_x86_64.manylinux_2_5_x86_64.whl"
    required = metadata.fields(metadata.of_wheel(wheel), "Requires-Dist")
    assert required == ["nvidia-cuda-runtime>=13.0,<14", "nvidia-cufft>=12.0,<13"]
    assert "libcufft.so.12 ← nvidia-cufft, by RUNPATH $ORIGIN/../nvidia/cu13/lib" in " ".join(
        done.stdout.split()
    )
