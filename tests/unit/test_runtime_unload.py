"""Single kernels are unloaded, and no more stay loaded than a package wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_samples import counter
from set_samples import OPENCL_C, install_set

from gpuforge.runtime import KernelSet
from gpuforge.runtime.unload import Limited, unload


def test_one_kernel_is_unloaded_with_its_last_reference(kernels: KernelSet, stub: str) -> None:
    kernel: Any = kernels.function("saxpy")
    unload(kernels, kernel)
    assert counter(stub, "stub_unloads") == 0  # it is in use
    with kernel.memory(4) as memory:
        kernel.launch(1, 1, np.uint64(1), np.float32(1), memory, memory)
    again = kernels.function("saxpy")
    assert again is not kernel
    assert counter(stub, "stub_loads") == 2
    del kernel, memory
    assert counter(stub, "stub_unloads") == 1


@pytest.mark.thorough
def test_the_one_used_longest_ago_goes(tmp_path: Path, pocl: None) -> None:
    made = install_set(tmp_path / "packages", OPENCL_C, cpu=False)
    env = {"GPUFORGE_KERNEL_HOME": str(tmp_path / "kernels")}
    limited = Limited(
        KernelSet(made / "kernels" / "ops", package="demo", env=env, driver="libnothing.so"), most=1
    )
    first = limited.function("saxpy")
    assert limited.function("saxpy") is first
    assert len(first._context._programs) == 1
    second = limited.function("saxpy", device=0)  # an object of its own
    assert second is not first
    assert limited.function("saxpy") is not first
    with pytest.raises(ValueError, match="at least one kernel must stay loaded"):
        Limited(limited.kernels, most=0)
    unload(limited.kernels, limited.function("saxpy"))
    assert first._context._programs == {}
