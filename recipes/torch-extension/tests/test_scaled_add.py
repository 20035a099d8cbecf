"""The operator against torch's own arithmetic, on the CPU and, where there is one, on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from scaled_add import scaled_add

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
each_device = pytest.mark.parametrize("device", DEVICES)


@each_device
@pytest.mark.parametrize("shape", [(0,), (1,), (1000, 257)])
def test_values(device: str, shape: tuple[int, ...]) -> None:
    x, y = torch.rand(shape, device=device), torch.rand(shape, device=device)
    found = scaled_add(x, y, 3.0)
    assert found.device == x.device
    torch.testing.assert_close(found, y + 3.0 * x)


@each_device
def test_gradients(device: str) -> None:
    x, y = (torch.rand(10, device=device, requires_grad=True) for _ in range(2))
    scaled_add(x, y, 3.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 3.0))
    torch.testing.assert_close(y.grad, torch.ones_like(y))


@each_device
def test_shapes_without_values(device: str) -> None:
    """The check of what `torch.compile` needs for tracing; nothing is compiled."""
    torch.library.opcheck(
        torch.ops.scaled_add.scaled_add, (torch.rand(8, device=device), torch.rand(8, device=device), 2.0)
    )


@each_device
def test_the_current_stream_is_used(device: str) -> None:
    if device == "cpu":
        pytest.skip("no GPU")
    x, stream = torch.rand(1 << 20, device=device), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = scaled_add(x, x, 1.0)
    stream.synchronize()
    torch.testing.assert_close(found, 2 * x)


@each_device
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.ones(3), torch.ones(4), "of one shape"),
        (torch.ones(3, dtype=torch.float64), torch.ones(3), "float32"),
        (torch.ones(4, 4).t()[:, :2], torch.ones(4, 2), "contiguous"),
    ],
)
def test_wrong_tensors_are_exceptions(device: str, x: torch.Tensor, y: torch.Tensor, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        scaled_add(x.to(device), y.to(device))


def test_one_cuda_runtime_is_in_the_process() -> None:
    if not torch.version.cuda:
        pytest.skip("a torch without CUDA")
    maps = Path("/proc/self/maps").read_text().splitlines()
    loaded = {line.split()[-1] for line in maps if "libcudart" in line}
    assert len(loaded) == 1, loaded
