"""What all tests on a GPU share."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from ptx_samples import ADD, HEAD, kernel_set

from gpuforge.runtime import Kernel, KernelSet, probe


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own kernels and cache out of the tests, and the tests out of them."""
    monkeypatch.setenv("HOME", str(tmp_path / "own-home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("GPUFORGE_KERNEL_HOME", raising=False)


@pytest.fixture(scope="session")
def device() -> None:
    """Skip the test on a machine without a usable GPU."""
    machine = probe()
    if not machine.devices:
        pytest.skip(str(machine.problem))


@pytest.fixture
def adding(tmp_path: Path) -> KernelSet:
    return kernel_set(tmp_path / "adding", HEAD + ADD)


@pytest.fixture
def add(adding: KernelSet) -> Kernel:
    return adding.function("add")


@pytest.fixture
def second_context() -> Iterator[int]:
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    yield context.value or 0
    driver.cuCtxDestroy_v2(context)
