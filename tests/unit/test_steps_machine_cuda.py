"""The CUDA of the machine that a wheel is tested on: what is found, what is hidden, and what was used all the same."""

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge.actions import machine_cuda
from gpuforge.actions.machine_cuda import MachineCuda, watch_loading
from gpuforge.actions.trial_result import LoadedCuda
from gpuforge.errors import ActionError

MULTIARCH = f"usr/lib/{os.uname().machine}-linux-gnu"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with a toolkit, Debian's CUDA packages, and an ollama that has its own."""
    names = ["usr/local/cuda-12.4/bin/nvcc", "usr/local/cuda-12.4/lib64/libcufft.so.11"]
    names += [f"{MULTIARCH}/libcurand.so.10.3.5.147", f"{MULTIARCH}/libm.so.6", "usr/bin/nvcc"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "usr/local/cuda").symlink_to("cuda-12.4")
    (tmp_path / MULTIARCH / "libcurand.so.10").symlink_to("libcurand.so.10.3.5.147")
    return tmp_path


def test_toolkits_libraries_and_programs_are_found_once(root):
    found = machine_cuda.find({"PATH": f"{root}/usr/bin"}, root=root)
    assert found.toolkits == (root / "usr/local/cuda-12.4",)
    assert root / MULTIARCH / "libcurand.so.10.3.5.147" in found.libraries
    assert not [path for path in found.libraries if path.name in {"libm.so.6", "libcufft.so.11"}]
    assert found.programs == (root / "usr/bin/nvcc",)
    assert {f"{root}/usr/local/cuda-12.4", f"{root}/{MULTIARCH}", f"{root}/usr/bin"} <= set(found.places)


def test_the_toolkit_that_a_wheel_is_meant_for_is_left_alone(root):
    toolkit = root / "usr/local/cuda"
    assert machine_cuda.find({"PATH": ""}, toolkit, root=root).toolkits == ()
    python = root / "usr/local/cuda-12.4/bin/python"
    python.touch()
    assert machine_cuda.find({"PATH": ""}, needed=[python], root=root).toolkits == ()


def test_variables_that_name_a_toolkit_are_forgotten(root):
    (root / "usr/local/cuda/bin").is_dir()
    environ = {"CUDA_PATH": "/x", "CUDA_HOME": "/x", "CUDA_PATH_V12_4": "/x", "CUDACXX": "/x/bin/nvcc"}
    environ |= {"CUDA_VISIBLE_DEVICES": "", "PATH": f"{root}/usr/local/cuda/bin:/usr/bin:/bin"}
    machine_cuda.forget(environ)
    assert environ == {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}


# Hides a folder, a library of this Python's own loader path and a program; then looks for each as a wheel would.
HIDING = """
import ctypes, os, shutil, sys
from pathlib import Path
from gpuforge.actions import machine_cuda
toolkit, library, program, scratch = map(Path, sys.argv[1:])
cuda = machine_cuda.hide(machine_cuda.MachineCuda((toolkit,), (library,), (program,)), scratch)
if not cuda.hidden:
    sys.exit(77)
assert os.getuid() == int(os.environ["OWNER"]), os.getuid()
print(list(toolkit.iterdir()), shutil.which("nvcc", path=str(program.parent)))
try:
    ctypes.CDLL(library.name)
except OSError as error:
    print(error)
"""


@pytest.mark.thorough
def test_what_is_hidden_is_not_there_for_the_loader_and_there_for_others(tmp_path):
    real = Path(sys.executable).resolve()
    libm = next(
        Path(line.split()[-1])
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libm.so" in line
    )
    toolkit, program = tmp_path / "cuda", tmp_path / "bin/nvcc"
    library = tmp_path / "lib/libcufft.so.11"
    for path in (toolkit / "version.json", program, library):
        path.parent.mkdir()
    (toolkit / "version.json").touch()
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o755)
    library.write_bytes(libm.read_bytes())
    env = {"LD_LIBRARY_PATH": str(library.parent), "OWNER": str(os.getuid()), "PATH": "/usr/bin:/bin"}
    arguments = [str(real), "-c", HIDING, str(toolkit), str(library), str(program), str(tmp_path)]
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this system gives no process mounts of its own")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[] None",
        "libcufft.so.11: cannot open shared object file: No such file or directory",
    ]
    assert list(toolkit.iterdir()) == [toolkit / "version.json"]
    assert library.read_bytes() == libm.read_bytes()
    assert os.access(program, os.X_OK)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with a library that is called like CUDA's, and one on the machine; return its Python."""
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    libm = ctypes.util.find_library("m")
    libm_path = next(
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if str(libm) in line
    )
    own = folder / "lib/own"
    for place in (own, tmp_path / "machine"):
        place.mkdir()
        (place / "libcufft.so.11").write_bytes(Path(libm_path).read_bytes())
    return folder / "bin/python"


@pytest.mark.thorough
def test_a_library_of_the_environment_is_named_and_one_of_the_machine_is_refused(environment, tmp_path):
    watch = watch_loading(environment, tmp_path / "loaded")
    load = f"import ctypes; ctypes.CDLL('{environment.parent.parent}/lib/own/libcufft.so.11')"
    subprocess.run([environment, "-I", "-c", load], check=True)
    assert watch.judged("`import demo`") == (
        LoadedCuda(library="libcufft.so.11", place="environment", path="lib/own/libcufft.so.11"),
    )

    # a child of the test's own, which ends well
    load = f"import ctypes; ctypes.CDLL('{tmp_path}/machine/libcufft.so.11')"
    parent = f'import subprocess, sys; subprocess.run([sys.executable, "-I", "-c", "{load}"], check=True)'
    subprocess.run([environment, "-I", "-c", parent], check=True)
    with pytest.raises(ActionError) as caught:
        watch.judged("`import demo`")
    assert str(caught.value) == (
        f"`import demo` loaded libcufft.so.11 from {tmp_path}/machine: CUDA of this machine, which users may not have\n"
        "  hint: no declared package has libcufft.so.11 on the wheel's search paths: link it, or declare "
        "nvidia-cufft-cu12 and load it through cuda-pathfinder"
    )


def test_how_a_machine_is_called_that_has_nothing():
    assert machine_cuda.NONE.state == "none"
    assert MachineCuda((Path("/usr/local/cuda"),), (), ()).state == "visible"
    assert machine_cuda.hide(machine_cuda.NONE, Path("/")).state == "none"
