"""PTX on a real GPU is compiled once: the second process takes the machine code from a cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ptx_samples import ADD, HEAD, kernel_set

from gpuforge.package import embed

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

ADDED = """
import ctypes, json, os, sys
from array import array
x, y = (array("f", [number] * 32) for number in (1.0, 2.0))
kernel = kernels.function("add")
with kernel.upload(x) as left, kernel.upload(y) as right:
    kernel.launch(1, 32, left, right, ctypes.c_uint(0))
    right.read(y)
print(json.dumps({"compiled": compiled, "right": list(y) == [3.0] * 32}))
"""
PROCESS = f"""
import os
from gpuforge.runtime import KernelSet
from gpuforge.runtime.cache import KernelCache
compiled = []
KernelCache.of_user(os.environ).hook = lambda key, compile: compiled.append(key.label) or compile()
kernels = KernelSet(os.environ["SET"])
{ADDED}
"""
OF_WHEEL = f"""
from demo._gpuforge import KernelSet
compiled, kernels = [], KernelSet.shipped("adding")
{ADDED}
"""


def run(code: str, **env: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


class Machine:
    """Processes of a user with a home of his own, where the driver keeps nothing."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        kernel_set(folder / "adding", HEAD + ADD)
        self._env = {
            "GPUFORGE_KERNEL_HOME": str(self.home), "CUDA_CACHE_DISABLE": "1", "SET": str(folder / "adding"),
        }  # fmt: skip

    def process(self, **env: str) -> dict[str, object]:
        return run(PROCESS, **self._env, **env)

    def cache(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "gpuforge.runtime", "cache", *words]
        return subprocess.run(
            argv, env={**os.environ, **self._env}, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ONCE, NEVER = {"compiled": ["m (PTX)"], "right": True}, {"compiled": [], "right": True}


def test_the_second_process_takes_the_code_from_the_cache(machine):
    assert (machine.process(), machine.process()) == (ONCE, NEVER)
    assert machine.cache("verify").stdout == "read 1 entry: none damaged\n"
    assert "m (PTX)" in machine.cache("ls").stdout


def test_a_damaged_entry_is_compiled_again_and_the_result_is_right(machine):
    machine.process()
    (entry,) = machine.home.rglob("*.kernel")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    assert machine.cache("verify").returncode == 1
    assert machine.process() == ONCE
    assert machine.cache("verify").returncode == 0


def test_without_a_cache_it_is_compiled_each_time(machine):
    for _ in range(2):
        assert machine.process(GPUFORGE_KERNEL_CACHE="0") == ONCE
    assert not machine.home.exists()


def test_the_driver_keeps_the_ptx_of_a_wheel_without_the_kernel_cache(tmp_path):
    site, kept = tmp_path / "site", tmp_path / "kept"
    (site / "demo").mkdir(parents=True)
    (site / "demo" / "__init__.py").touch()
    (tmp_path / "packed" / "kernels").mkdir(parents=True)
    kernel_set(tmp_path / "packed" / "kernels" / "adding", HEAD + ADD)
    added = embed.kernel_sets(site, "demo", [tmp_path / "packed"])
    assert "demo/_gpuforge/cache.py" not in added
    env = {"PYTHONPATH": str(site), "CUDA_CACHE_PATH": str(kept), "CUDA_CACHE_DISABLE": "0"}
    assert run(OF_WHEEL, **env) == NEVER
    assert any(path.is_file() for path in kept.rglob("*"))
    assert run(OF_WHEEL, **env) == NEVER
