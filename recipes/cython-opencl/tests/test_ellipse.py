"""Both ways, where the package is installed; without an OpenCL device its tests are skipped, with the reason."""

import math
import os
import subprocess
import sys

import ellipse
import numpy
import pytest
from ellipse import Orbits, device, eccentric_anomaly

try:
    device.kernel()
    WHY_NOT = ""
except RuntimeError as error:
    WHY_NOT = str(error)
opencl = pytest.param("opencl", marks=pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT))
both = pytest.mark.parametrize("use", ["native", opencl])
with_opencl = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def orbits(count):
    return numpy.linspace(-50, 50, count), numpy.linspace(0, 0.99, count)


@both
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 10_007])
def test_keplers_equation_holds(use, count):
    mean, eccentricity = orbits(count)
    anomaly = eccentric_anomaly(mean, eccentricity, use=use)
    numpy.testing.assert_allclose(anomaly - eccentricity * numpy.sin(anomaly), mean, rtol=0, atol=1e-12)


@with_opencl
def test_the_device_agrees_with_the_loop():
    mean, eccentricity = orbits(100_000)
    numpy.testing.assert_allclose(
        eccentric_anomaly(mean, eccentricity, use="opencl"),
        eccentric_anomaly(mean, eccentricity, use="native"),
        rtol=1e-12,
        atol=1e-12,
    )


@both
def test_a_bad_element_is_an_exception_with_its_place_and_nothing_is_written(use):
    mean, eccentricity = orbits(1000)
    eccentricity[700] = 1.0
    out = numpy.full(1000, 7.0)
    with pytest.raises(
        ValueError, match=r"^element 700: the eccentricity of an ellipse is at least 0"
    ) as error:
        eccentric_anomaly(mean, eccentricity, out, use=use)
    place = {"native": "(the native loop)", "opencl": "(kernel solve, kernels/anomaly.cl line 13, on "}[use]
    assert place in str(error.value)
    assert (out == 7.0).all()
    mean[3] = math.nan
    with pytest.raises(ValueError, match=r"^element 3: the mean anomaly is not finite"):
        eccentric_anomaly(mean, numpy.full(1000, 0.5), use=use)
    assert len(eccentric_anomaly([1.0], [0.5], use=use)) == 1  # an error leaves nothing behind


@both
@pytest.mark.parametrize("shift", [-3, 0, 3])
def test_out_may_overlap_what_is_read(use, shift):
    memory, eccentricity = orbits(1006)[0], orbits(1000)[1]
    mean, out = memory[3:1003], memory[3 + shift : 1003 + shift]
    expected = eccentric_anomaly(mean.copy(), eccentricity, use=use)
    assert eccentric_anomaly(mean, eccentricity, out, use=use) is out
    numpy.testing.assert_array_equal(out, expected)
    untouched = numpy.setdiff1d(numpy.arange(1006), numpy.arange(3 + shift, 1003 + shift))
    numpy.testing.assert_array_equal(memory[untouched], orbits(1006)[0][untouched])


@both
def test_strides_and_memoryviews(use):
    mean, eccentricity = orbits(500)
    expected = eccentric_anomaly(mean, eccentricity, use=use)
    wide = numpy.zeros(1000)
    eccentric_anomaly(mean, eccentricity, memoryview(wide)[::2], use=use)
    numpy.testing.assert_array_equal(wide[::2], expected)
    assert not wide[1::2].any()
    backwards = eccentric_anomaly(mean[::-1], eccentricity[::-1], use=use)
    numpy.testing.assert_array_equal(backwards[::-1], expected)


def test_an_out_that_cannot_hold_the_result_is_refused():
    mean, eccentricity = orbits(4)
    same = numpy.lib.stride_tricks.as_strided(numpy.zeros(1), (4,), (0,))
    with pytest.raises(ValueError, match="out overlaps itself"):
        eccentric_anomaly(mean, eccentricity, same)
    with pytest.raises(ValueError, match="out is read-only"):
        eccentric_anomaly(mean, eccentricity, numpy.broadcast_to(numpy.zeros(4), 4))
    with pytest.raises(TypeError, match=r"out must hold 4 float64, not an array of float32 of shape \(4,\)"):
        eccentric_anomaly(mean, eccentricity, numpy.zeros(4, "f4"))
    with pytest.raises(
        ValueError, match=r"expected two arrays of one dimension and length, not \(4,\) and \(3,\)"
    ):
        eccentric_anomaly(mean, eccentricity[:3])
    with pytest.raises(ValueError, match=r"use='gpu': expected one of auto, native, opencl"):
        eccentric_anomaly(mean, eccentricity, use="gpu")


@both
def test_orbits_keep_their_data_between_calls(use):
    mean, eccentricity = orbits(2000)
    with Orbits(mean, eccentricity, use=use) as held:
        assert held.where == use
        start = mean.copy()
        mean[:] = 0  # the caller's own array is not looked at again
        for _ in range(3):
            held.advance(0.25)
        numpy.testing.assert_allclose(held.mean(), start + 0.75, rtol=1e-15)
        numpy.testing.assert_allclose(
            held.solve(), eccentric_anomaly(start + 0.75, eccentricity), rtol=1e-12, atol=1e-12
        )
    held.close()


@with_opencl
def test_closed_orbits_say_so():
    held = Orbits(*orbits(10), use="opencl")
    held.close()
    for call in (held.solve, held.mean, lambda: held.advance(1)):
        with pytest.raises(ValueError, match="these orbits are closed"):
            call()


@with_opencl
def test_an_error_of_the_driver_names_the_kernel_its_source_and_the_device():
    pyopencl = pytest.importorskip("pyopencl")
    kernel = device.kernel()
    elsewhere = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
    with kernel.memory(8) as memory, pytest.raises(Exception, match="failed: INVALID_CONTEXT") as error:
        kernel.launch(1, 1, numpy.uint64(1), memory, memory, memory, memory, stream=elsewhere)
    assert (error.value.kernel, error.value.source) == ("solve", "kernels/anomaly.cl")
    assert "kernel solve of kernels/anomaly.cl, on " in str(error.value)


def process(tmp_path, code, **env):
    """Run Python in a process of its own, with an empty kernel cache in `tmp_path`."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "GPUFORGE_KERNEL_HOME": str(tmp_path), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


COUNTED = """
import os, numpy, ellipse
from ellipse import device
from ellipse._gpuforge.cache import KernelCache
done = []
KernelCache.of_user(os.environ).hook = lambda key, compile: done.append(key.label.partition(":")[0]) or compile()
x = numpy.linspace(0, 1, 300_000)
ellipse.eccentric_anomaly(x[:100], x[:100] / 2)
assert not done, done
ellipse.eccentric_anomaly(x, x / 2)
print(*sorted(done), device._crossover().size(device.kernel()))
"""


@with_opencl
def test_it_is_compiled_and_measured_once_on_a_machine(tmp_path):
    *first, size = process(tmp_path, COUNTED).split()
    assert first == ["ellipse", "kernels/anomaly.cl"]
    assert process(tmp_path, COUNTED) == size  # nothing is compiled or measured, and the size is the same
    assert process(tmp_path, COUNTED, GPUFORGE_OPENCL_OPTIONS="-DOTHER=1").split()[:-1] == [
        "kernels/anomaly.cl"
    ]


LOADED = """
import sys, numpy, ellipse
x = numpy.linspace(0, 1, 300_000)
ellipse.eccentric_anomaly(x, x / 2)
maps = open("/proc/self/maps").read().lower()
print("libopencl" in maps, "pyopencl" in sys.modules)
"""


@with_opencl
def test_a_switch_keeps_the_loader_closed(tmp_path):
    assert process(tmp_path, LOADED) == "True True"
    for variable, value in (
        ("GPUFORGE_OPENCL", "0"),
        ("GPUFORGE_OPENCL", "none"),
        ("GPUFORGE_DISABLE_GPU", "1"),
    ):
        assert process(tmp_path, LOADED, **{variable: value}) == "False False"


KIND = """
import pyopencl, ellipse
from ellipse import device
try:
    found = device.kernel()._context.device
    print(pyopencl.device_type.to_string(found.type))
except RuntimeError as error:
    print(error)
"""


@with_opencl
def test_cpus_only(tmp_path):
    pyopencl = pytest.importorskip("pyopencl")
    cpu = any(p.get_devices(pyopencl.device_type.CPU) for p in pyopencl.get_platforms())
    said = process(tmp_path, KIND, GPUFORGE_OPENCL="cpu")
    if cpu:
        assert "CPU" in said
    else:
        assert "GPUFORGE_OPENCL=cpu allows none of OpenCL's devices" in said


@with_opencl
def test_a_source_that_the_driver_refuses_is_told_and_the_loop_does_the_work(tmp_path):
    code = LOADED + "from ellipse import device\nprint(device._found('solve'))"
    said = process(tmp_path, code, GPUFORGE_OPENCL_OPTIONS="-Dcount=(")
    assert "kernels/anomaly.cl" in said
    assert not list(tmp_path.rglob("*.kernel"))


@pytest.mark.skipif(device.KernelSet is not None, reason="this build has kernels")
def test_a_build_without_kernels_says_so():
    with pytest.raises(RuntimeError, match="OpenCL cannot be used"):
        eccentric_anomaly([1.0], [0.5], use="opencl")
    assert len(ellipse.eccentric_anomaly(*orbits(100_000))) == 100_000
