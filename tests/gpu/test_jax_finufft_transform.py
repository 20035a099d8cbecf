"""The built jax-finufft wheel beside JAX on a GPU: transforms inside `jax.jit` are right, with one CUDA runtime.

Needs the wheel that `gpuforge build recipes/jax-finufft` makes, installed into the same environment as jax[cuda13] or
jax[cuda12]: RUNPATH leads to the packages of NVIDIA beside it.
"""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
from jax_finufft import lowering, nufft1, nufft2

jax.config.update("jax_enable_x64", True)
eps = float(sys.argv[1])
rng = np.random.default_rng(5)
points, modes = 20_000, 96
x, y = rng.uniform(-np.pi, np.pi, (2, points))
c = rng.normal(size=points) + 1j * rng.normal(size=points)
k = np.arange(-modes // 2, modes // 2)
f = rng.normal(size=(modes, modes)) + 1j * rng.normal(size=(modes, modes))

@jax.jit
def both(c, f, x, y):
    return nufft1((modes, modes), 2 * c, x, y, eps=eps, iflag=1), nufft2(f, x, y, eps=eps, iflag=-1) + 1

print("device", jax.devices()[0].platform, jax.__version__)
one, two = (np.asarray(each) for each in both(*map(jnp.asarray, (c, f, x, y))))
waves_x, waves_y = np.exp(1j * np.outer(k, x)), np.exp(1j * np.outer(y, k))
wanted = 2 * waves_x @ (c[:, None] * waves_y)
print("error", np.linalg.norm(one - wanted) / np.linalg.norm(wanted))
wanted = 1 + np.einsum("kj,kl,jl->j", waves_x.conj(), f, waves_y.conj(), optimize=True)
print("error", np.linalg.norm(two - wanted) / np.linalg.norm(wanted))
slope = jax.jit(jax.grad(lambda x: jnp.abs(nufft1((modes, modes), c, x, y, eps=eps, iflag=1)).sum()))
print("finite", bool(jnp.isfinite(slope(jnp.asarray(x))).all()))
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if "libcudart" in path or "libcufft." in path:
        print("image", path)
"""


@pytest.mark.parametrize("eps", [1e-5, 1e-9, 1e-12])
def test_transforms_inside_jit_reach_their_tolerance_with_one_runtime(eps):
    pytest.importorskip("jax_finufft", reason="the jax-finufft wheel that gpuforge built is not installed")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(eps)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    (device,) = [value for kind, value in seen if kind == "device"]
    if not device.startswith(("gpu", "cuda")):
        pytest.skip(f"JAX computes on {device}")
    errors = [float(value) for kind, value in seen if kind == "error"]
    images = sorted({value for kind, value in seen if kind == "image"})

    assert len(errors) == 2
    assert max(errors) < 10 * eps
    assert ["finite", "True"] in seen
    assert len(images) == 2, images
    assert re.search(r"/nvidia/(cu13|cuda_runtime)/lib/libcudart\.so\.1[23]$", images[0])
    assert re.search(r"/nvidia/(cu13|cufft)/lib/libcufft\.so\.1[12]$", images[1])
