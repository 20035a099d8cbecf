"""The operation of recipes/saxpy on every back end of a machine with a GPU: nvcc, NVRTC, OpenCL and the CPU agree.

Install the wheel of recipes/saxpy, nvidia-cuda-nvrtc and pyopencl, then `python -m pytest tests/gpu -m gpu`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

APPLY = """
import json, os, sys, time
from array import array
from ctypes import c_float, c_ulonglong
from saxpy._gpuforge import KernelSet
from saxpy._gpuforge.cache import KernelCache

compiled = []
KernelCache.of_user(os.environ).hook = lambda key, compile: compiled.append(key.toolchain) or compile()
kernels, context = KernelSet.shipped("user-ops"), None
if "opencl" in sys.argv:
    import pyopencl
    (device,) = [d for p in pyopencl.get_platforms() if "NVIDIA" in p.name for d in p.get_devices()][:1]
    context = pyopencl.Context([device])
begin = time.perf_counter()
kernel = kernels.function("apply", context=context)
seconds = time.perf_counter() - begin
x, y = array("f", range(5000)), array("f", [1.0] * 5000)
with kernel.upload(x) as a, kernel.upload(y) as b:
    kernel.launch(20, 256, c_ulonglong(len(x)), c_float(2.0), a, b)
    b.read(y)
print(json.dumps({
    "backend": kernel.backend, "used": kernels.candidates()[0].label, "compiled": compiled, "seconds": seconds,
    "right": list(y) == [2.0 * i + 1 for i in range(5000)],
}))
"""


@pytest.fixture(autouse=True)
def wheel() -> None:
    pytest.importorskip("saxpy", reason="the saxpy wheel is not installed")


def run(home: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUFORGE_KERNEL_HOME": str(home), **env}
    return subprocess.run(
        [sys.executable, *argv], env=environment, capture_output=True, text=True, check=False
    )


def apply(home: Path, *argv: str, **env: str) -> dict[str, Any]:
    done = run(home, "-c", APPLY, *argv, **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(found)  # noqa: T201  the times are for people
    assert found["right"]
    return found


def table(home: Path) -> list[dict[str, Any]]:
    """Return the candidates of the set as `explain` shows them."""
    done = run(home, "-m", "saxpy._gpuforge", "explain", "user-ops", "--json")
    (found,) = json.loads(done.stdout)["sets"]
    candidates: list[dict[str, Any]] = found["modules"][0]["verdicts"][0]["candidates"]
    return candidates


def without(home: Path, origin: str) -> None:
    (row,) = [row for row in table(home) if row["origin"] == origin]
    if row["verdict"] == "refused":
        pytest.skip(row["reason"]["text"])


def test_nvrtc_compiles_at_first_use_and_the_second_process_finds_it(tmp_path):
    without(tmp_path, "cached build")
    first, second = apply(tmp_path), apply(tmp_path)
    assert (first["backend"], first["used"]) == ("cuda", "cached build CUDA source")
    assert first["compiled"][0].startswith("nvrtc ")
    assert (second["compiled"], second["used"]) == ([], first["used"])


@pytest.mark.parametrize("toolchain", ["device", "runtime"])
def test_what_compile_makes_is_used_until_it_is_removed(tmp_path, toolchain):
    if toolchain == "device" and shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    if toolchain == "runtime":
        without(tmp_path, "cached build")
    built = run(tmp_path, "-m", "saxpy._gpuforge", "compile", "--toolchain", toolchain)
    assert (built.returncode, built.stderr) == (0, "")
    found = apply(tmp_path)
    assert (found["backend"], found["compiled"]) == ("cuda", [])
    assert found["used"].startswith("user build cubin sm_")
    removed = run(tmp_path, "-m", "saxpy._gpuforge", "compile", "--remove")
    assert removed.returncode == 0
    assert not apply(tmp_path)["used"].startswith("user build")


def test_nvidias_opencl_gives_the_same(tmp_path):
    cl = pytest.importorskip("pyopencl")
    try:
        names = [platform.name for platform in cl.get_platforms() if platform.get_devices()]
    except cl.Error:
        names = []
    if not any("NVIDIA" in name for name in names):
        pytest.skip(f"OpenCL has no platform of NVIDIA's here: {', '.join(names) or 'none at all'}")
    first, second = apply(tmp_path, "opencl"), apply(tmp_path, "opencl")
    assert (first["backend"], second["backend"]) == ("opencl", "opencl")
    assert len(first["compiled"]) == 1
    assert second["compiled"] == []


def test_switched_off_it_computes_on_the_cpu(tmp_path):
    found = apply(tmp_path, GPUFORGE_DISABLE_GPU="1")
    assert (found["backend"], found["used"]) == ("cpu", "CPU library")


def test_several_back_ends_side_by_side_in_one_process(tmp_path):
    """The shipped fatbin, what is compiled here, and the library for the CPU, with two contexts of one process."""
    done = run(
        tmp_path,
        "-c",
        "from array import array\n"
        "import os, saxpy\n"
        "from saxpy._gpuforge import KernelSet\n"
        "x, y = array('f', range(1000)), array('f', [1.0] * 1000)\n"
        "results = [saxpy.saxpy(2.0, x, y), saxpy.apply(2.0, x, y)]\n"
        "off = KernelSet(KernelSet.shipped('user-ops')._folder, package='saxpy', env={'GPUFORGE_DISABLE_GPU': '1'})\n"
        "kernel = off.function('apply')\n"
        "from ctypes import c_float, c_ulonglong\n"
        "kernel.launch(1, 1, c_ulonglong(1000), c_float(2.0), x, y)\n"
        "print(kernel.backend, all(result == y for result in results))\n",
    )
    assert (done.stdout, done.stderr) == ("cpu True\n", "")
