"""The saxpy wheel on a real GPU: its shipped kernels are found, chosen, loaded, and compute right.

docs/users-machine.md shows what `explain` prints there. Install a wheel that gpuforge built of recipes/saxpy, then
`python -m pytest tests/gpu -m gpu`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from array import array
from types import ModuleType

import pytest
from thread_samples import COUNT, in_threads

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def saxpy() -> ModuleType:
    module: ModuleType = pytest.importorskip("saxpy", reason="the saxpy wheel is not installed")
    runtime = pytest.importorskip("saxpy._gpuforge", reason="the saxpy wheel was built without gpuforge")
    machine = runtime.probe()
    if not machine.devices:
        pytest.skip(str(machine.problem))
    return module


def numbers(count: int, step: float) -> array[float]:
    return array("f", (step * (i % 1000) for i in range(count)))


def test_it_computes_on_the_gpu(saxpy):
    assert saxpy.backend() == "cuda", saxpy.explain()


def test_the_binary_for_this_gpu_is_used_and_says_so(saxpy):
    major, minor = saxpy._gpuforge.probe().devices[0].capability
    used = [line.split(maxsplit=3) for line in saxpy.explain().splitlines() if line.startswith("    used ")]
    assert used[0][1] in {"cubin", "PTX"}, saxpy.explain()
    if f"cubin sm_{major}{minor} " in saxpy.explain():
        assert used[0][1:3] == ["cubin", f"sm_{major}{minor}"]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 3_000_001])
def test_the_result_is_right(saxpy, count):
    x, y = numbers(count, 0.25), numbers(count, 0.5)
    expected = array("f", bytes(4 * count))
    saxpy._core.saxpy(2.0, x, y, expected)
    assert saxpy.saxpy(2.0, x, y) == expected


def test_it_was_the_gpu_that_computed(saxpy, monkeypatch):
    """A GPU rounds a * x + y once, portable x86-64 code twice: these numbers tell them apart."""
    tiny = 2.0**-12
    a, x, y = 1 + tiny, array("f", [1 + tiny]), array("f", [-(1 + 2 * tiny)])
    assert list(saxpy.saxpy(a, x, y)) == [tiny**2]
    monkeypatch.setenv("GPUFORGE_DISABLE_GPU", "1")
    assert saxpy.backend() == "cpu"
    assert list(saxpy.saxpy(a, x, y)) == [0.0]


def test_only_the_driver_was_loaded(saxpy):
    """In a process of its own: other tests bring CUDA runtimes into this one."""
    program = "import saxpy; print(saxpy.backend()); print(open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    backend, _, mapped = done.stdout.partition("\n")
    assert backend == "cuda"
    assert "libcuda.so" in mapped
    assert "libcudart" not in mapped


def test_threads_share_the_loaded_kernel(saxpy):
    start = threading.Barrier(COUNT)
    wrong: list[int] = []

    def work(seed: int) -> None:
        start.wait()
        x, y = numbers(10_000, 0.25 * seed), numbers(10_000, 1.0)
        expected = array("f", (2.0 * p + q for p, q in zip(x, y, strict=True)))
        wrong.extend(seed for _ in range(20) if saxpy.saxpy(2.0, x, y) != expected)

    in_threads(work)
    assert wrong == []


def test_a_forked_child_computes_on_the_cpu(saxpy):
    program = """
import os
from array import array
import saxpy
one = array("f", [1.0])
saxpy.saxpy(1.0, one, one)
child = os.fork()
if child == 0:
    print(saxpy.backend(), list(saxpy.saxpy(2.0, one, one)), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(saxpy.backend())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "cpu [3.0]\ncuda\n"


def test_the_demonstration_runs(saxpy):
    ran = subprocess.run([sys.executable, "-m", "saxpy"], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("1000000 numbers on cuda: right\n"), ran.stdout
