"""The filters against NumPy, on the GPU or the CPU of this machine."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import softlens
from softlens import filters
from softlens.buffers import Buffer


def mean(image):
    """The mean of 3 x 3 pixels, in double precision."""
    wide = numpy.pad(image.astype(float), 1, mode="edge")
    height, width = image.shape
    return sum(wide[y : y + height, x : x + width] for y in range(3) for x in range(3)) / 9


@pytest.fixture(params=[(1, 1), (3, 5), (17, 16), (480, 641)], ids=str)
def image(request):
    return numpy.random.default_rng(7).random(request.param, dtype=numpy.float32)


def test_blur(image):
    numpy.testing.assert_allclose(softlens.blur(image), mean(image), rtol=1e-5)


def test_unsharp(image):
    expected = image + 0.5 * (image - mean(image))
    numpy.testing.assert_allclose(softlens.unsharp(image, 0.5), expected, rtol=1e-5, atol=1e-6)


def test_both_pipelines_have_one_runtime():
    """What one pipeline left on the GPU, the other reads there."""
    library = filters._opened()
    image = numpy.random.default_rng(3).random((50, 60), dtype=numpy.float32)
    between, result = numpy.zeros_like(image), numpy.zeros_like(image)
    with (
        Buffer(library, image, filled=True) as first,
        Buffer(library, between, filled=False) as second,
        Buffer(library, result, filled=False) as third,
    ):
        assert library.blur(first.pointer, second.pointer) == 0
        assert library.unsharp(second.pointer, ctypes.c_float(1), third.pointer) == 0
        assert third.to_host() == 0
    blurred = mean(image)
    numpy.testing.assert_allclose(result, 2 * blurred - mean(blurred), rtol=1e-4, atol=1e-5)
    assert between.any() == (softlens.where() == "cpu")  # on the GPU it was never copied back


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="two-dimensional"):
        softlens.blur(numpy.zeros(3))


def test_threads():
    images = [numpy.full((64, 64), number, numpy.float32) for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(softlens.blur, images))
    for number, result in enumerate(results):
        numpy.testing.assert_allclose(result, number, rtol=1e-6)


def test_a_failure_is_an_exception_with_halides_text():
    with pytest.raises(softlens.FilterError, match=r"^blur: .*\(Halide's error -\d+\)$"):
        filters._check(filters._opened().blur(None, None), "blur")


def test_explain_names_every_target():
    text = filters._library.explain()
    assert softlens.where() in ("cpu", "gpu")
    for target in ("compute_80", "compute_50", "x86-64-v3"):
        assert target in text
