"""What the project promises anywhere; what computes is the CPU or the GPU, whichever this machine has."""

from __future__ import annotations

from array import array

import pytest
import saxpy


def floats(count: int, step: float) -> array[float]:
    return array("f", (step * (i % 100) for i in range(count)))


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 100_000])
def test_it_is_a_times_x_plus_y(count: int) -> None:
    x, y = floats(count, 0.5), floats(count, 0.25)
    assert saxpy.saxpy(3.0, x, y) == array("f", (3.0 * p + q for p, q in zip(x, y, strict=True)))


def test_its_arguments_stay_as_they_were() -> None:
    x, y = floats(10, 1.0), floats(10, 2.0)
    saxpy.saxpy(2.0, x, y)
    assert (x, y) == (floats(10, 1.0), floats(10, 2.0))


def test_it_reads_any_buffer_of_floats() -> None:
    x = memoryview(bytes(array("f", [1.0, 2.0]))).cast("f")  # read-only
    assert list(saxpy.saxpy(2.0, x, array("f", [0.5, 0.5]))) == [2.5, 4.5]


def test_different_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"^x has 2 numbers and y has 3$"):
        saxpy.saxpy(1.0, floats(2, 1.0), floats(3, 1.0))


@pytest.mark.parametrize("wrong", [array("d", [1.0]), b"1234", memoryview(floats(8, 1.0))[::2]])
def test_other_buffers_are_an_error(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"^x must be a one-dimensional, contiguous buffer of C floats$"):
        saxpy.saxpy(1.0, wrong, floats(4, 1.0))


def test_switched_off_it_computes_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_DISABLE_GPU", "1")
    assert saxpy.backend() == "cpu"
    assert list(saxpy.saxpy(2.0, floats(2, 1.0), floats(2, 1.0))) == [0.0, 3.0]


def test_it_says_what_it_uses_and_why() -> None:
    assert saxpy.backend() in {"cpu", "cuda"}
    assert "kernel" in saxpy.explain()


def test_the_users_operation_works_on_every_machine() -> None:
    """On a GPU, an OpenCL device or the CPU: the wheel has a library for it."""
    pytest.importorskip("saxpy._gpuforge", reason="built without gpuforge")
    x, y = floats(1000, 0.5), floats(1000, 0.25)
    assert saxpy.apply(3.0, x, y) == array("f", (3.0 * p + q for p, q in zip(x, y, strict=True)))
