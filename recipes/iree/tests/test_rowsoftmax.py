"""Runs wherever the package is installed: with IREE's runtime and without, built by gpuforge and by pip alone."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys

import numpy as np
import pytest
import rowsoftmax

RNG = np.random.default_rng(7)
BUILT = "no kernels" not in rowsoftmax.explain()


def has_iree() -> bool:
    try:
        importlib.metadata.version("iree-base-runtime")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (33, 65), (64, 1000), (0, 5), (3, 0)])
def test_softmax(shape: tuple[int, int]) -> None:
    x = RNG.normal(scale=5, size=shape).astype("f4")
    wide = x.astype("f8")
    shifted = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
    found = rowsoftmax.softmax(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, shifted / shifted.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_scale_keeps_double_precision(size: int) -> None:
    y = RNG.normal(size=size)
    expected = y / 3
    rowsoftmax.scale(1 / 3, y)
    np.testing.assert_allclose(y, expected, rtol=1e-15)


@pytest.mark.skipif(not BUILT, reason="built without gpuforge")
def test_iree_is_used_where_its_runtime_is_installed() -> None:
    if has_iree():
        assert rowsoftmax.backend() in {"cuda", "vulkan", "local-task"}
    else:
        assert rowsoftmax.backend() == "numpy"
        assert 'pip install "iree-base-runtime>=3.13,<3.14"' in rowsoftmax.explain()


@pytest.mark.skipif(not BUILT, reason="built without gpuforge")
def test_every_driver_is_listed_with_its_devices_or_the_reason() -> None:
    lines = [line.strip() for line in rowsoftmax.explain().splitlines()]
    for driver in ("cuda", "vulkan", "local-task"):
        assert any(line.startswith(f"IREE {driver}: ") for line in lines)


@pytest.mark.skipif(not BUILT, reason="built without gpuforge")
def test_a_switch_chooses_the_back_end() -> None:
    code = "import rowsoftmax; print(rowsoftmax.backend())"

    def backend(**env: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    assert backend(GPUFORGE_IREE="0") == "numpy"
    assert backend(GPUFORGE_DISABLE_GPU="1") == ("local-task" if has_iree() else "numpy")


@pytest.mark.skipif(not BUILT or not has_iree(), reason="needs IREE's runtime")
def test_two_back_ends_work_side_by_side_in_one_process() -> None:
    from rowsoftmax._gpuforge import KernelSet  # noqa: PLC0415  only there where gpuforge built it

    used = {}
    x = RNG.normal(size=(37, 101)).astype("f4")
    for driver in ("local-task", "vulkan", "cuda"):
        kernels = KernelSet.shipped("kernels")
        kernels.env = {"GPUFORGE_IREE": driver}
        try:
            used[driver] = kernels.function("softmax")
        except RuntimeError:
            continue  # no such device here; `explain` says why
    assert "local-task" in used
    if len(used) < 2:
        pytest.skip("one back end alone has a device here: local-task")
    for _ in range(3):
        found = []
        for kernel in used.values():
            result = np.empty_like(x)
            kernel.launch(1, 1, x, result)
            found.append(result)
        for result in found[1:]:
            np.testing.assert_allclose(result, found[0], rtol=1e-5, atol=1e-7)


def test_importing_opens_nothing() -> None:
    code = "import rowsoftmax, sys; sys.exit('iree' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
