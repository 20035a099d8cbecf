"""Single kernels are unloaded; test_backends_alike.py has what holds on all back ends."""

from typing import Any

import numpy as np
import pytest
from runtime_samples import counter
from set_samples import NVRTC, install_set, nvrtc_stub

from gpuforge.runtime import KernelSet
from gpuforge.runtime.cache import KernelCache
from gpuforge.runtime.unload import Limited, unload


def test_one_kernel_is_unloaded_with_its_last_reference(kernels, stub):
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
def test_what_nvrtc_has_compiled_is_unloaded_and_then_comes_from_the_cache(tmp_path, stub):
    home = install_set(tmp_path / "packages", NVRTC, cpu=False)
    env = {
        "GPUFORGE_KERNEL_HOME": str(tmp_path / "kernels"),
        "GPUFORGE_NVRTC": str(nvrtc_stub(tmp_path / "nvrtc")),
    }
    kernels = KernelSet(home / "kernels" / "ops", package="demo", env=env, driver=stub)
    compiled: list[str] = []
    KernelCache.of_user(env).hook = lambda key, compile: compiled.append(key.label) or compile()  # noqa: A006
    for count in range(2):
        kernel = kernels.function("saxpy")
        assert counter(stub, "stub_loads") == count + 1
        unload(kernels, kernel)
        del kernel
        assert counter(stub, "stub_unloads") == count + 1
    assert compiled == ["mod/scale.cu"]


def test_at_least_one_kernel_stays_loaded(kernels):
    with pytest.raises(ValueError, match="at least one kernel must stay loaded, not 0"):
        Limited(kernels, most=0)
