"""The built cufinufft wheel on a GPU: its transform is right, and the process holds one CUDA runtime.

Needs the wheel that `gpuforge build recipes/cufinufft` makes installed, and torch for GPU arrays.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import sys
import cufinufft
import numpy as np
import torch

eps = float(sys.argv[1])
rng = np.random.default_rng(5)
points, modes = 20_000, 96
x = rng.uniform(-np.pi, np.pi, points)
y = rng.uniform(-np.pi, np.pi, points)
c = rng.normal(size=points) + 1j * rng.normal(size=points)
on_gpu = [torch.from_numpy(a).cuda() for a in (x, y, c)]
found = cufinufft.nufft2d1(*on_gpu, (modes, modes), eps=eps, isign=1).cpu().numpy()
k = np.arange(-modes // 2, modes // 2)
wanted = np.exp(1j * np.outer(k, x)) @ (c[:, None] * np.exp(1j * np.outer(y, k)))
print("error", np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if "libcudart" in path or "libcufft." in path:
        print("image", path)
"""


@pytest.mark.parametrize("eps", [1e-5, 1e-9, 1e-12])
def test_a_type_1_transform_reaches_its_tolerance_with_one_runtime(eps):
    pytest.importorskip("cufinufft", reason="the cufinufft wheel that gpuforge built is not installed")
    torch = pytest.importorskip("torch", reason="torch, for GPU arrays, is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(eps)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    (error,) = [float(value) for kind, value in said if kind == "error"]
    images = sorted({value for kind, value in said if kind == "image"})

    assert error < 10 * eps
    assert [image.rpartition("/")[2] for image in images] == ["libcudart.so.13", "libcufft.so.12"]
    assert all("/nvidia/cu13/lib/" in image for image in images)
