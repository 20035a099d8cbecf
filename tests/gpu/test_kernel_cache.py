"""PTX on a real GPU: compiled by the driver in the first process, and taken from the kernel cache in the second.

Install the saxpy wheel of a CUDA major that has no machine code for this GPU (`saxpy-cu11` on 9.0 and newer), then
`python -m pytest tests/gpu -m gpu`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

PROCESS = """
import json, os, time
from array import array
import saxpy
from saxpy._gpuforge import KernelSet
from saxpy._gpuforge.cache import KernelCache

compiled = []
cache = KernelCache.of_user(os.environ)
cache.hook = lambda key, compile: compiled.append(key.arch) or compile()
begin = time.perf_counter()
kernels = KernelSet.shipped("default-kernels")
kernels.function("saxpy")
seconds = time.perf_counter() - begin
x, y = array("f", range(1000)), array("f", [1.0] * 1000)
right = list(saxpy.saxpy(2.0, x, y)) == [2.0 * i + 1 for i in range(1000)]
used = kernels.candidates()[0].label
print(json.dumps({"compiled": compiled, "seconds": seconds, "right": right, "used": used}))
"""


def process(home: Path, **env: str) -> dict[str, object]:
    environment = {**os.environ, "GPUFORGE_KERNEL_HOME": str(home), "CUDA_CACHE_DISABLE": "1", **env}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "saxpy._gpuforge", "cache", *words]
    environment = {**os.environ, "GPUFORGE_KERNEL_HOME": str(home)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    pytest.importorskip("saxpy", reason="the saxpy wheel is not installed")
    found = process(tmp_path / "look")
    if not str(found["used"]).startswith("PTX"):
        pytest.skip(f"this GPU runs {found['used']} of the wheel: nothing is compiled")
    return tmp_path / "home"


def test_the_second_process_takes_the_code_from_the_cache(home: Path) -> None:
    first, second = process(home), process(home)
    print(first, second)  # noqa: T201  the times are for people
    assert (first["right"], second["right"]) == (True, True)
    assert (len(first["compiled"]), second["compiled"]) == (1, [])  # type: ignore[arg-type]
    assert command(home, "verify").stdout == "all 1 entries are whole\n"
    assert "saxpy (PTX)" in command(home, "ls").stdout


def test_a_damaged_entry_is_compiled_again_and_the_result_is_right(home: Path) -> None:
    process(home)
    (entry,) = home.rglob("*.kernel")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    assert command(home, "verify").returncode == 1
    again = process(home)
    assert (again["right"], len(again["compiled"])) == (True, 1)  # type: ignore[arg-type]
    assert command(home, "verify").returncode == 0


def test_without_a_cache_it_is_compiled_each_time(home: Path) -> None:
    for _ in range(2):
        found = process(home, GPUFORGE_KERNEL_CACHE="0")
        assert (found["right"], len(found["compiled"])) == (True, 1)  # type: ignore[arg-type]
    assert not home.exists()
