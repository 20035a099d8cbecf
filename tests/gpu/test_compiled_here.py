"""Sources compiled on the machine with the GPU: saxpy's own operation by nvcc, membrane's mechanisms by what is there.

Install the wheels of recipes/saxpy and recipes/openacc, then `python -m pytest tests/gpu -m gpu`.
"""

from __future__ import annotations

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
import ctypes, json
from array import array
from saxpy._gpuforge import KernelLibrary, KernelSet

library = KernelLibrary.shipped("user-ops").load()
library.saxpy_apply.argtypes = (ctypes.c_ulonglong, ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p)
kernel = KernelSet.shipped("default-kernels").function("saxpy")  # beside it: both in one process
x, y = array("f", range(5000)), array("f", [1.0] * 5000)
with kernel.upload(x) as a, kernel.upload(y) as b:
    status = library.saxpy_apply(len(x), 2.0, a.address, b.address)
    b.read(y)
with open("/proc/self/maps") as maps:
    runtimes = sorted({line.split()[-1] for line in maps if "libcudart" in line})
print(json.dumps({"status": status, "right": list(y) == [2.0 * i + 1 for i in range(5000)], "cudart": runtimes}))
"""


def run(home: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GPUFORGE_KERNEL_HOME": str(home), **env}
    return subprocess.run(
        [sys.executable, *argv], env=environment, capture_output=True, text=True, check=False
    )


def test_an_operation_compiled_by_nvcc_runs_beside_the_shipped_kernels(tmp_path: Path) -> None:
    pytest.importorskip("saxpy", reason="the saxpy wheel is not installed")
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on this machine")
    built = run(tmp_path, "-m", "saxpy._gpuforge", "compile")
    assert (built.returncode, built.stderr) == (0, "")
    assert "made by nvcc" in built.stdout
    done = run(tmp_path, "-c", APPLY)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["status"], found["right"], len(found["cudart"])) == (0, True, 1)


def test_mechanisms_compiled_here_give_the_same_spikes_as_the_shipped_ones(tmp_path: Path) -> None:
    pytest.importorskip("membrane", reason="the membrane wheel is not installed")
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    shipped = run(tmp_path, "-m", "membrane").stdout.splitlines()
    assert run(tmp_path, "-m", "membrane._gpuforge", "compile").returncode == 0
    own = run(tmp_path, "-m", "membrane").stdout.splitlines()
    assert own[1].startswith("  used     user build")
    assert own[-1] == shipped[-1]
    assert run(tmp_path, "-m", "membrane._gpuforge", "compile", "--remove").returncode == 0
    assert run(tmp_path, "-m", "membrane").stdout.splitlines() == shipped
