"""What the wheel promises where there is no GPU: the CPU computes right, and CUDA's libraries are pip's or absent."""

from __future__ import annotations

import json
from importlib.metadata import distribution, packages_distributions, version
from pathlib import Path

import jax
import jax.numpy as jnp
import jax_finufft
import numpy as np
import pytest
from jax_finufft import lowering
from packaging.requirements import Requirement

SITE = Path(jax_finufft.__file__).parents[1]
(NAME,) = set(packages_distributions()["jax_finufft"])
WHEEL = distribution(NAME)
MAJOR = NAME[-2:]
LIBRARIES = {  # of each CUDA major, where NVIDIA's wheels have them
    "12": {"nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cufft/lib/libcufft.so.11"},
    "13": {"nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcufft.so.12"},
}


def loaded(*names: str) -> set[str]:
    """The files of this process whose names begin so, from where packages are installed."""
    paths = {Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines()}
    found = {path for path in paths if path.name.startswith(names)}
    return {path.relative_to(SITE).as_posix() if SITE in path.parents else str(path) for path in found}


@pytest.mark.parametrize("eps", [1e-4, 1e-9, 1e-12])
def test_the_cpu_agrees_with_the_direct_sum_inside_jit(eps: float) -> None:
    rng = np.random.default_rng(5)
    points, modes = 500, 40
    with jax.enable_x64(True):
        x, y = rng.uniform(-np.pi, np.pi, (2, points))
        c = rng.normal(size=points) + 1j * rng.normal(size=points)
        transform = jax.jit(lambda c, x, y: 2 * jax_finufft.nufft1((modes, modes), c, x, y, eps=eps, iflag=1))
        found = np.asarray(transform(*map(jnp.asarray, (c, x, y))))
    k = np.arange(-modes // 2, modes // 2)
    wanted = 2 * np.exp(1j * np.outer(k, x)) @ (c[:, None] * np.exp(1j * np.outer(y, k)))
    assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 10 * eps


def test_the_gpu_code_is_there_with_one_cuda_runtime_from_pip() -> None:
    gpu = lowering.jax_finufft_gpu
    assert gpu is not None, "installed with the extra for its CUDA major, the GPU module must load"
    assert sorted(gpu.registrations()) == sorted(lowering.jax_finufft_cpu.registrations())
    assert loaded("libcudart.", "libcufft.") == LIBRARIES[MAJOR]


def test_jax_is_not_older_than_the_one_whose_ffi_the_wheel_was_built_with() -> None:
    record = json.loads(WHEEL.read_text("gpuforge.json") or "")
    built = record["requirements"]["jax"]["version"]
    jax_range = [r for r in map(Requirement, WHEEL.requires or ()) if r.name == "jax" and r.marker is None]
    assert any(built in r.specifier for r in jax_range)
    assert not all("0.5.0" in r.specifier for r in jax_range)
    assert all(version("jax") in r.specifier for r in jax_range)


def test_no_extra_is_for_another_cuda_major() -> None:
    extras = set(WHEEL.metadata.get_all("Provides-Extra"))
    assert extras == {"test", f"cuda{MAJOR}", f"cuda{MAJOR}-local"}
