"""A wheel that works by the CUDA of the machine alone is kept back, whether the machine lets it be hidden or not.

The machine gets a real library of NVIDIA's in a mount namespace of the test's own: nothing of it is seen outside.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builds import CELL, DEVICES, GPUFORGE, PYTHON, run

pytestmark = [pytest.mark.toolkit, pytest.mark.network, pytest.mark.xdist_group("build")]

# Puts the folder $1 in the place of /usr/local/lib, which the loader's cache then has, and runs the rest.
PLANT = """
set -e
mount --bind "$1" /usr/local/lib
ldconfig -i -X -C "$2/ld.so.cache"
mount --bind "$2/ld.so.cache" /etc/ld.so.cache
shift 2
exec "$@"
"""
# Runs a command without any right to mounts, as in a container; the limit is that of its own user namespace.
POWERLESS = ["unshare", "--user", "--map-root-user", "--", "sh", "-c"]
POWERLESS += [
    'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-sys_admin "$@"',
    "sh",
]
# nvJitLink is loaded by name: nothing in the wheel says that it is needed, and the machine has it.
LOADS_BY_NAME = "import ctypes\nctypes.CDLL('libnvJitLink.so.13')\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nvJitLink of NVIDIA's wheel."""
    folder = tmp_path_factory.mktemp("library")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "wheel")]
    subprocess.run([*pip, "nvidia-nvjitlink==13.0.88"], check=True)
    shutil.copy(folder / "wheel/nvidia/cu13/lib/libnvJitLink.so.13", folder)
    shutil.rmtree(folder / "wheel")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return shutil.copytree(DEVICES, tmp_path / "devices")


def add(project: Path, text: str) -> None:
    module = project / "src/devices/__init__.py"
    module.write_text(module.read_text() + text)


def on_a_machine_with(library: Path, scratch: Path, *command: str) -> list[str]:
    """Return a command line that runs a command where the machine has a CUDA library."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    planted = [*unshare, "--", "sh", "-c", PLANT, "sh", str(library), str(scratch)]
    probe = run(*planted, "true")
    if probe.returncode:
        pytest.skip(f"this system gives no process mounts of its own: {probe.stderr.strip()}")
    return [*planted, *command]


def build(project: Path, cache: Path, library: Path, *before: str) -> subprocess.CompletedProcess[str]:
    gpuforge = [GPUFORGE, "build", str(project), "--cuda", "13", "--python", PYTHON]
    gpuforge += ["-o", str(project / "dist"), "--json"]
    command = on_a_machine_with(library, project.parent, *before, *gpuforge)
    return run(*command, GPUFORGE_CACHE_DIR=cache, GPUFORGE_WORK=project.parent / "work")


def test_the_machines_library_is_hidden_from_the_import(project, cache, library):
    add(project, LOADS_BY_NAME)
    found = on_a_machine_with(library, project.parent, sys.executable, "-c", LOADS_BY_NAME)
    subprocess.run(found, check=True)  # it is there for everybody else
    done = build(project, cache, library)
    assert done.returncode == 1
    assert (
        f"  why:  {CELL}: `import devices` failed with exit status 1: "
        "OSError: libnvJitLink.so.13: cannot open shared object file: No such file or directory\n"
    ) in done.stderr
    assert (
        "  hint: no declared package has libnvJitLink.so.13 on the wheel's search paths: link it, or declare "
        "nvidia-nvjitlink and load it through cuda-pathfinder; "
        "the test hides the one of this machine, /usr/local/lib/libnvJitLink.so.13\n"
    ) in done.stderr
    assert list(project.glob("dist/*.whl")) == []
    assert not Path("/usr/local/lib/libnvJitLink.so.13").exists()


def test_where_it_cannot_be_hidden_what_was_loaded_tells(project, cache, library):
    add(project, LOADS_BY_NAME)
    done = build(project, cache, library, *POWERLESS)
    assert done.returncode == 1
    assert (
        f"  why:  {CELL}: `import devices` loaded libnvJitLink.so.13 from /usr/local/lib: CUDA of this machine, "
        "which users may not have\n"
    ) in done.stderr
    assert list(project.glob("dist/*.whl")) == []


def test_a_wheel_that_declares_what_it_needs_takes_it_from_there(project, cache, library):
    done = build(project, cache, library)
    assert done.returncode == 0, done.stderr
    (test,) = json.loads(done.stdout)["tests"]
    assert test["cuda"]["machine"] == "hidden"
    (runtime,) = test["cuda"]["loaded"]
    assert runtime == {
        "library": "libcudart.so.13",
        "from": "environment",
        "path": f"lib/python{PYTHON}/site-packages/nvidia/cu13/lib/libcudart.so.13",
    }
