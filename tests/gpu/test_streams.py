"""A launch runs on the device of its arrays and in the order of their library's current stream, on real GPUs.

What each library queues before takes long enough that a kernel which does not wait computes wrong numbers.
"""

import ctypes
import os
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from gpuforge.runtime import DriverError, probe

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("device")]

NONE = ctypes.c_uint32(0)
SIZE, REPEATS = 1024, 40
DEVICES = [0, 1]


@pytest.fixture(params=DEVICES)
def ordinal(request: pytest.FixtureRequest) -> int:
    count = len(probe().devices)
    if request.param >= count:
        pytest.skip(f"there is no device {request.param}: the driver sees {count}")
    return int(request.param)


def torch_streams(ordinal: int) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream(device=ordinal)
    return {"default": nullcontext, "its own": lambda: torch.cuda.stream(stream)}


def cupy_streams(ordinal: int) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(ordinal):
        blocking, free = cupy.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    return {"default": nullcontext, "blocking": lambda: blocking, "non-blocking": lambda: free,
            "per thread": lambda: cupy.cuda.Stream.ptds}  # fmt: skip


@pytest.mark.parametrize("name", ["default", "its own"])
def test_torch(add, ordinal, name):
    torch = pytest.importorskip("torch")
    wrong = 0
    for step in range(REPEATS):
        with torch_streams(ordinal)[name]():
            torch.cuda._sleep(300_000)
            x = torch.full((SIZE,), float(step), device=f"cuda:{ordinal}")
            y = torch.ones(SIZE, device=f"cuda:{ordinal}")
            add.launch(1, SIZE, x, y, NONE)
            z = y * 2
        torch.cuda.synchronize(ordinal)
        wrong += not bool((z == 2 * (step + 1)).all())
    assert wrong == 0


@pytest.mark.parametrize("name", ["default", "blocking", "non-blocking", "per thread"])
def test_cupy(add, ordinal, name):
    cupy = pytest.importorskip("cupy")
    wrong = 0
    with cupy.cuda.Device(ordinal):
        big = cupy.ones(20_000_000, "f4")
        for step in range(REPEATS):
            with cupy_streams(ordinal)[name]():
                for _ in range(5):
                    big *= 1  # keeps the stream busy
                x, y = cupy.full(SIZE, step, "f4"), cupy.ones(SIZE, "f4")
                add.launch(1, SIZE, x, y, NONE)
                z = y * 2
            cupy.cuda.Device(ordinal).synchronize()
            wrong += not bool((z == 2 * (step + 1)).all())
    assert wrong == 0


def test_cupy_without_making_the_device_current(add, ordinal):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(ordinal):
        x, y = cupy.arange(SIZE, dtype="f4"), cupy.ones(SIZE, "f4")
    add.launch(1, SIZE, x, y, NONE)
    with cupy.cuda.Device(ordinal):
        assert cupy.asnumpy(y).tolist() == [i + 1.0 for i in range(SIZE)]


def test_torch_with_the_device_current(adding, ordinal):
    torch = pytest.importorskip("torch")
    with torch.cuda.device(ordinal):
        kernel = adding.function("add")
        x, y = torch.ones(SIZE, device="cuda"), torch.ones(SIZE, device="cuda")
        kernel.launch(1, SIZE, x, y, NONE)
        assert y.tolist() == [2.0] * SIZE
        result = array("f", bytes(4 * SIZE))
        with kernel.upload(array("f", [1.0] * SIZE)) as memory:
            assert memory.place == ordinal
            kernel.launch(1, SIZE, x, memory, NONE)
            memory.read(result)
    assert list(result) == [2.0] * SIZE


@pytest.mark.parametrize("where", ["memory", "stream"])
def test_a_thread_that_never_used_cuda(add, where):
    """It has no current context, and repeats with other arguments what the main thread launched often."""
    cupy = pytest.importorskip("cupy")
    x, y, free = cupy.ones(SIZE, "f4"), cupy.zeros(SIZE, "f4"), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    memory = add.upload(array("f", bytes(4 * SIZE)))

    def launch() -> None:
        for step in range(REPEATS):
            if where == "memory":
                add.launch(1, SIZE // 2 + step % 2, add_ones, memory, NONE)
            else:
                with free:
                    add.launch(1, SIZE // 2 + step % 2, x, y, NONE)

    with add.upload(array("f", [1.0] * SIZE)) as add_ones, memory:
        launch()
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        result = array("f", bytes(4 * SIZE))
        memory.read(result)
    free.synchronize()
    found = list(result) if where == "memory" else y.tolist()
    assert found[: SIZE // 2] == [2.0 * REPEATS] * (SIZE // 2)


def test_torch_and_cupy_in_one_launch(add, ordinal):
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    wrong = 0
    with cupy.cuda.Device(ordinal):
        theirs, free = torch.cuda.Stream(device=ordinal), cupy.cuda.Stream(non_blocking=True)
        for step in range(REPEATS):
            with torch.cuda.stream(theirs), free:
                torch.cuda._sleep(300_000)
                x = torch.full((SIZE,), float(step), device=f"cuda:{ordinal}")
                y = cupy.ones(SIZE, "f4")
                add.launch(1, SIZE, x, y, NONE)
                z = y * 2
                x.fill_(-1)
            free.synchronize()
            wrong += not bool((z == 2 * (step + 1)).all())
    assert wrong == 0


def test_memory_of_ours_in_streams_of_torch(add, ordinal):
    torch = pytest.importorskip("torch")
    result, wrong = array("f", bytes(4 * SIZE)), 0
    with torch.cuda.device(ordinal):
        one, two = torch.cuda.Stream(), torch.cuda.Stream()
        for step in range(REPEATS):
            with add.upload(array("f", [1.0] * SIZE)) as memory:
                for stream in (one, two, one):
                    with torch.cuda.stream(stream):
                        torch.cuda._sleep(100_000)
                        add.launch(1, SIZE, torch.full((SIZE,), float(step), device="cuda"), memory, NONE)
                memory.read(result)
            wrong += list(result) != [1.0 + 3 * step] * SIZE
    assert wrong == 0


def test_numba(add, ordinal):
    cuda = pytest.importorskip("numba.cuda")
    numpy = pytest.importorskip("numpy")
    with cuda.gpus[ordinal]:
        for stream in (0, cuda.stream()):
            for step in range(REPEATS):
                x = cuda.to_device(numpy.full(SIZE, step, "f4"), stream=stream)
                y = cuda.to_device(numpy.ones(SIZE, "f4"), stream=stream)
                add.launch(1, SIZE, x, y, NONE)
                assert y.copy_to_host(stream=stream).tolist() in ([step + 1.0] * SIZE, None) or stream != 0
                cuda.synchronize()
                assert y.copy_to_host().tolist() == [step + 1.0] * SIZE


def test_jax(add, ordinal):
    jax = pytest.importorskip("jax")
    if len(jax.devices()) <= ordinal or jax.devices()[0].platform != "gpu":
        pytest.skip(f"JAX has no GPU {ordinal}")
    result = array("f", bytes(4 * SIZE))
    with jax.default_device(jax.devices()[ordinal]):
        for step in range(REPEATS):
            x = jax.numpy.full(SIZE, float(step)) * jax.numpy.ones(SIZE)
            with _on(ordinal), add.upload(array("f", [1.0] * SIZE)) as memory:
                add.launch(1, SIZE, x, memory, NONE)
                del x
                jax.numpy.full(SIZE, -1.0).block_until_ready()
                memory.read(result)
            assert list(result) == [step + 1.0] * SIZE


@contextmanager
def _on(ordinal: int) -> Iterator[None]:
    """Make a device's primary context current, as its libraries do."""
    driver, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    assert driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    try:
        yield
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))


@pytest.mark.parametrize("package", ["saxpy", "ripple"])
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_packages_as_the_docs_show_them(ordinal, package, library):
    """recipes/saxpy and the tutorial know nothing of devices and streams."""
    module = pytest.importorskip(package, reason=f"the wheel of {package} is not installed")
    lib = pytest.importorskip(library)
    streams = {"torch": torch_streams, "cupy": cupy_streams}[library](ordinal)
    wrong = 0
    current = lib.cuda.device(ordinal) if library == "torch" else lib.cuda.Device(ordinal)
    with current:
        for name, stream in streams.items():
            for step in range(REPEATS):
                with stream():
                    if library == "torch":
                        lib.cuda._sleep(200_000)
                        x, y = lib.full((SIZE,), float(step), device="cuda"), lib.ones(SIZE, device="cuda")
                    else:
                        x, y = lib.full(SIZE, step, "f4"), lib.ones(SIZE, "f4")
                    z = module.saxpy(2.0, x, y) if package == "saxpy" else module.scale(x, 2) + y
                    x *= 0
                lib.cuda.synchronize() if library == "torch" else current.synchronize()
                wrong += not bool((z == 2 * step + 1).all())
            assert wrong == 0, name
        elements = lib.ones(SIZE, dtype=lib.float64, **({"device": "cuda"} if library == "torch" else {}))
        with pytest.raises(TypeError, match=r"an array of float64 .* and the parameter is (const )?float \*"):
            module.saxpy(2.0, elements, elements) if package == "saxpy" else module.scale(elements, 2)


def test_a_capture_of_torch(add, ordinal):
    torch = pytest.importorskip("torch")
    with torch.cuda.device(ordinal):
        x, y = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
        graph = torch.cuda.CUDAGraph()
        # the first launch: the module is loaded meanwhile. torch's own stream for captures is of the first device
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            add.launch(1, SIZE, x, y, NONE)
        assert y.tolist() == [0.0] * SIZE
        for _ in range(3):
            graph.replay()
        assert y.tolist() == [3.0] * SIZE


def test_threads_on_both_devices(add):
    torch = pytest.importorskip("torch")
    count, wrong = len(probe().devices), []

    def work(seed: int) -> None:
        device = seed % count
        stream = torch.cuda.Stream(device=device)
        with torch.cuda.stream(stream):
            for step in range(200):
                x = torch.full((SIZE,), float(step), device=f"cuda:{device}")
                y = torch.full((SIZE,), float(seed), device=f"cuda:{device}")
                add.launch(1, SIZE, x, y, NONE)
                if not bool((y == step + seed).all()):
                    wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


BOTH = """
import ctypes, pathlib, sys
import cupy
from ptx_samples import ADD, HEAD, kernel_set
add = kernel_set(pathlib.Path(sys.argv[1]) / "s", HEAD + ADD).function("add")
arrays = []
for device in (0, 1):
    with cupy.cuda.Device(device):
        arrays.append(cupy.ones(2, "f4"))
try:
    add.launch(1, 2, *arrays, ctypes.c_uint32(0))
except ValueError as error:
    print(error)
add.launch(1, 2, arrays[1], arrays[1], ctypes.c_uint32(0))
with cupy.cuda.Device(1):
    print(cupy.asnumpy(arrays[1]).tolist())
"""


def run(program: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path, **env}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def two_devices() -> None:
    count = len(probe().devices)
    if count < 2:
        pytest.skip(f"needs two GPUs: the driver sees {count}")


@pytest.mark.usefixtures("two_devices")
class TestTwoDevices:
    def test_arrays_of_both_are_refused_and_the_process_lives(self, tmp_path):
        """In a process of its own: other libraries let the GPUs access each other's memory."""
        done = run(BOTH, tmp_path)
        message = "argument 0 is on device 0 and argument 1 on device 1, and neither can reach the other: "
        assert done.stdout.startswith(message), done.stdout + done.stderr
        assert done.stdout.endswith("[2.0, 2.0]\n")

    def test_a_kernel_for_one_device_refuses_arrays_of_the_other(self, adding):
        torch = pytest.importorskip("torch")
        x, y = torch.ones(SIZE, device="cuda:1"), torch.ones(SIZE, device="cuda:1")
        with pytest.raises(
            ValueError, match=r"^argument 0 is on device 1, and the kernel add was looked up for device 0"
        ):
            adding.function("add", device=0).launch(1, SIZE, x, y, NONE)
        adding.function("add", device=1).launch(1, SIZE, x, y, NONE)
        assert y.tolist() == [2.0] * SIZE

    def test_managed_memory_of_either_device(self, add):
        cupy = pytest.importorskip("cupy")
        with (
            cupy.cuda.Device(0),
            cupy.cuda.using_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc),
        ):
            x = cupy.ones(SIZE, "f4")
            cupy.cuda.Device(0).synchronize()
        with cupy.cuda.Device(1):
            y = cupy.ones(SIZE, "f4")
            for arrays in ((x, y), (y, x)):
                add.launch(1, SIZE, *arrays, NONE)
            cupy.cuda.Device(1).synchronize()
            assert cupy.asnumpy(y).tolist() == [2.0] * SIZE
            assert cupy.asnumpy(x).tolist() == [3.0] * SIZE

    def test_arrays_that_torch_lets_reach_each_other(self, add):
        torch = pytest.importorskip("torch")
        if not torch.cuda.can_device_access_peer(0, 1):
            pytest.skip("the GPUs cannot access each other's memory")
        x = torch.ones(SIZE, device="cuda:0")
        y = x.to("cuda:1") + x.to("cuda:1").to("cuda:0").to("cuda:1")  # torch enables the access, both ways
        torch.cuda.synchronize(1)
        add.launch(1, SIZE, x, y, NONE)
        assert y.tolist() == [3.0] * SIZE


FAULT = """
import ctypes, pathlib, sys
from ptx_samples import ADD, HEAD, kernel_set
from gpuforge.runtime import DriverError
kernel = kernel_set(pathlib.Path(sys.argv[1]) / "s", HEAD + ADD).function("add")
nobodys = ctypes.c_void_p(64)
try:
    with kernel.upload(bytes(64)):  # freeing it fails, too
        kernel.launch(1, 32, nobodys, nobodys, ctypes.c_uint32(0))
except DriverError as error:
    print(error.code, error.kernel)
"""


def test_a_fault_names_the_kernel_when_launches_block(tmp_path):
    """In a process of its own: it loses its GPU."""
    done = run(FAULT, tmp_path, GPUFORGE_LAUNCH_BLOCKING="1")
    assert done.stdout.split() == ["700", "add"], done.stderr


def test_more_threads_than_a_block_can_have(add):
    with (
        add.memory(128) as memory,
        pytest.raises(DriverError, match=r"block x is 4096, and GPU \d, .*, allows 1024"),
    ):
        add.launch(1, 4096, memory, memory, NONE)


def test_the_handle_in_a_launch_of_cuda_core(add):
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    y = array("f", [2.0] * 32)
    with add.upload(array("f", [1.0] * 32)) as device_x, add.upload(y) as device_y:
        kernel = core.Kernel.from_handle(add.handle)
        core.launch(device.default_stream, core.LaunchConfig(grid=1, block=32), kernel,
                    device_x.address, device_y.address, NONE)  # fmt: skip
        device_y.read(y)
    assert list(y) == [3.0] * 32
