"""The processes that bench/launch.py measures: `python bench/launch_workers.py NAME` prints times in µs as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

BATCH, BATCHES = 300, 60  # a stream takes 1024 launches before it makes the caller wait
SOURCE = Path(__file__).resolve().parents[1] / "recipes" / "saxpy" / "kernels" / "saxpy.cu"
SYMBOL = "_Z5saxpyyfPKfPf"  # saxpy(unsigned long long, float, const float *, float *)
N = 1000
A = 2.0


def least(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the least mean time of a call in µs, without what the GPU does afterwards."""
    means = []
    for _ in range(BATCHES):
        begin = time.perf_counter()
        for _ in range(BATCH):
            call()
        means.append((time.perf_counter() - begin) / BATCH)
        wait()
    return min(means) * 1e6


def fatbin() -> str:
    """Return the shipped kernel's file: both load the same."""
    import saxpy

    return str(Path(saxpy.__file__).parent / "_gpuforge" / "kernels" / "default-kernels" / "saxpy.fatbin")


def gpuforge_launch() -> dict[str, float]:
    import numpy
    from saxpy._gpuforge import KernelSet

    kernels = KernelSet.shipped("default-kernels")
    kernel = kernels.function("saxpy")
    x, y = numpy.ones(N, "f4"), numpy.ones(N, "f4")
    n, a = numpy.uint64(N), numpy.float32(A)
    with kernel.upload(x) as device_x, kernel.upload(y) as device_y:

        def wait() -> None:
            device_y.read(y)

        again = kernel.bind(4, 256, n, a, device_x, device_y)
        found = {
            "launch": least(lambda: kernel.launch(4, 256, n, a, device_x, device_y), wait),
            "bound": least(again, wait),
            "function": least(lambda: kernels.function("saxpy"), wait),
        }
        device_y.write(x)
        kernel.launch(4, 256, n, a, device_x, device_y)
        again()
        device_y.read(y)
    assert (y == 1 + 2 * A).all(), y
    return found


def gpuforge_torch_launch() -> dict[str, float]:
    import numpy
    import torch
    from saxpy._gpuforge import KernelSet

    kernel = KernelSet.shipped("default-kernels").function("saxpy")
    n, a = numpy.uint64(N), numpy.float32(A)
    with torch.cuda.stream(torch.cuda.Stream()):
        x, y = torch.ones(N, device="cuda"), torch.ones(N, device="cuda")
        again = kernel.bind(4, 256, n, a, x, y)
        found = {
            "launch": least(lambda: kernel.launch(4, 256, n, a, x, y), torch.cuda.synchronize),
            "bound": least(again, torch.cuda.synchronize),
        }
        y.fill_(1)
        kernel.launch(4, 256, n, a, x, y)
        again()
        assert bool((y == 1 + 2 * A).all())
    return found


def gpuforge_cupy_launch() -> dict[str, float]:
    import cupy
    import numpy
    from saxpy._gpuforge import KernelSet

    kernel = KernelSet.shipped("default-kernels").function("saxpy")
    n, a = numpy.uint64(N), numpy.float32(A)
    with cupy.cuda.Stream(non_blocking=True):
        x, y = cupy.ones(N, "f4"), cupy.ones(N, "f4")
        return {"launch": least(lambda: kernel.launch(4, 256, n, a, x, y), cupy.cuda.Device().synchronize)}


def core_launch() -> dict[str, float]:
    import numpy
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    device = Device(0)
    device.set_current()
    stream = device.default_stream
    kernel = ObjectCode.from_fatbin(fatbin()).get_kernel(SYMBOL)
    x, y = device.allocate(4 * N, stream=stream), device.allocate(4 * N, stream=stream)
    config, n, a = LaunchConfig(grid=4, block=256), numpy.uint64(N), numpy.float32(A)
    return {"launch": least(lambda: launch(stream, config, kernel, n, a, x, y), stream.sync)}


def core_torch_launch() -> dict[str, float]:
    """cuda.core takes no tensors, so it gets their addresses; the stream is made once."""
    import numpy
    import torch
    from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch

    Device(0).set_current()
    theirs = torch.cuda.Stream()
    stream = Stream.from_handle(theirs.cuda_stream)
    kernel = ObjectCode.from_fatbin(fatbin()).get_kernel(SYMBOL)
    config, n, a = LaunchConfig(grid=4, block=256), numpy.uint64(N), numpy.float32(A)
    with torch.cuda.stream(theirs):
        x, y = torch.ones(N, device="cuda"), torch.ones(N, device="cuda")
        return {
            "launch": least(
                lambda: launch(stream, config, kernel, n, a, x.data_ptr(), y.data_ptr()),
                torch.cuda.synchronize,
            )
        }


def cupy_launch() -> dict[str, float]:
    import cupy
    import numpy

    kernel = cupy.RawModule(path=fatbin()).get_function(SYMBOL)
    x, y = cupy.ones(N, "f4"), cupy.ones(N, "f4")
    n, a = numpy.uint64(N), numpy.float32(A)
    return {"launch": least(lambda: kernel((4,), (256,), (n, a, x, y)), cupy.cuda.Device().synchronize)}


def gpuforge_first() -> dict[str, float]:
    from array import array

    import saxpy

    ones = array("f", [1.0]) * N
    result = saxpy.saxpy(A, ones, ones)
    assert saxpy.backend() == "cuda", saxpy.explain()
    assert list(result) == [1 + A] * N
    return {}


def core_first() -> dict[str, float]:
    import numpy
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device(0)
    device.set_current()
    stream = device.default_stream
    code = Program(SOURCE.read_text(), "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    kernel = code.get_kernel(SYMBOL)
    x = device.allocate(4 * N, stream=stream)
    launch(stream, LaunchConfig(grid=4, block=256), kernel, numpy.uint64(N), numpy.float32(A), x, x)
    stream.sync()
    return {}


def cupy_first() -> dict[str, float]:
    import cupy
    import numpy

    kernel = cupy.RawKernel(SOURCE.read_text(), SYMBOL)
    x, y = cupy.asarray(numpy.ones(N, "f4")), cupy.asarray(numpy.ones(N, "f4"))
    kernel((4,), (256,), (numpy.uint64(N), numpy.float32(A), x, y))
    assert (cupy.asnumpy(y) == 1 + A).all()
    return {}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
    sys.stdout.flush()
    os._exit(0)  # what libraries do at exit is not measured
