"""OpenCL's devices and arguments: which devices are taken, what enters a key, what a kernel of PoCL may get."""

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import golden
import host_misuses
import numpy as np
import pytest
from set_samples import OPENCL_C, install_set

from gpuforge.runtime import DriverError, KernelSet, KernelUnavailable
from gpuforge.runtime.backends.opencl import devices as back_end
from gpuforge.runtime.backends.opencl import kernel, load
from gpuforge.runtime.backends.opencl.devices import Needs
from gpuforge.runtime.backends.opencl.kernel import OpenClKernel, OpenClMemory, context_of
from gpuforge.runtime.recipe import read
from gpuforge.runtime.signature import HostArray, host_array
from gpuforge.runtime.values import Reason

GPU, ACCELERATOR, CPU = 4, 8, 2
FP64 = "cl_khr_fp64"


def device(name: str, kind: int, extensions: str = FP64) -> Any:
    platform = SimpleNamespace(name="P", version="OpenCL 3.0")
    return SimpleNamespace(name=name, type=kind, extensions=extensions, driver_version="1", platform=platform)


class NoDeviceError(Exception):
    """What pyopencl raises for a platform without devices."""


def platform(*found: Any) -> Any:
    def get_devices() -> list[Any]:
        if not found:
            raise NoDeviceError
        return list(found)

    return SimpleNamespace(get_devices=get_devices)


@pytest.fixture
def opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for pyopencl: an old GPU, no device in the second platform, and a CPU."""
    kinds = SimpleNamespace(GPU=GPU, ACCELERATOR=ACCELERATOR, CPU=CPU)
    old = device("old GPU", GPU, "cl_khr_fp16")
    there = [platform(device("a CPU", CPU)), platform(), platform(old, device("FPGA", ACCELERATOR))]
    stub = SimpleNamespace(device_type=kinds, Error=NoDeviceError, get_platforms=lambda: there)
    monkeypatch.setitem(sys.modules, "pyopencl", stub)
    monkeypatch.setattr(back_end, "_devices", {})


ANY, DOUBLES = Needs("pip install demo"), Needs("pip install demo", (), (FP64,))


@pytest.mark.parametrize(
    ("value", "needs", "expected"),
    [
        ("", ANY, ["old GPU", "FPGA", "a CPU"]),
        ("", DOUBLES, ["FPGA", "a CPU"]),
        ("cpu", ANY, ["a CPU"]),
        ("gpu", ANY, ["old GPU"]),
        ("", Needs("", ("cpu", "accelerator")), ["FPGA", "a CPU"]),
        ("gpu", DOUBLES, "needs cl_khr_fp64, which no device of OpenCL has: old GPU"),
        ("gpu", Needs("", ("cpu",)), "its devices must be cpu; OpenCL has old GPU"),
        ("0", ANY, "switched off (GPUFORGE_OPENCL=0)"),
        ("CPU", ANY, "GPUFORGE_OPENCL=CPU: expected one of 0, gpu, accelerator, cpu"),
    ],
)
@pytest.mark.usefixtures("opencl")
def test_the_devices_that_the_user_and_the_package_allow(value, needs, expected):
    found = back_end.devices({"GPUFORGE_OPENCL": value}, needs)
    assert (str(found) if isinstance(found, Reason) else [each.name for each in found]) == expected


@pytest.mark.usefixtures("opencl")
def test_no_device_of_the_kind_that_is_allowed(monkeypatch):
    monkeypatch.setattr(sys.modules["pyopencl"], "get_platforms", lambda: [platform(device("a CPU", CPU))])
    found = back_end.devices({"GPUFORGE_OPENCL": "gpu"}, ANY)
    assert str(found) == "GPUFORGE_OPENCL=gpu allows none of OpenCL's devices: a CPU"


@pytest.mark.parametrize(
    "env", [{"GPUFORGE_OPENCL": "0"}, {"GPUFORGE_DISABLE_GPU": "1"}, {"GPUFORGE_OPENCL": "x"}]
)
def test_what_is_switched_off_is_not_opened(env, tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(back_end, "_look", opened.append)
    home = install_set(tmp_path / "site", OPENCL_C, cpu=False)
    kernels = KernelSet(home / "kernels" / "ops", package="demo", env=env, driver="libnothing.so")
    with pytest.raises(KernelUnavailable):
        kernels.function("saxpy")
    assert "refused" in kernels.explain()
    assert opened == []


def test_a_recipe_restricts_the_devices(tmp_path):
    from dataclasses import replace

    home = install_set(tmp_path / "site", replace(OPENCL_C, devices=("cpu",), extensions=(FP64,)), cpu=False)
    recipe = read(str(home / "sources" / "ops"))
    assert recipe
    assert load.needs_of(recipe.sources_of(recipe.toolchains[0])) == Needs(
        "pip install demo[opencl]", ("cpu",), (FP64,)
    )


def test_options_of_the_user_enter_the_key(tmp_path, monkeypatch):
    """Those of pyopencl's own variable as well: it adds them to every program."""
    monkeypatch.delenv("PYOPENCL_BUILD_OPTIONS", raising=False)
    recipe = read(str(install_set(tmp_path / "site", OPENCL_C, cpu=False) / "sources" / "ops"))
    assert recipe
    sources = recipe.sources_of(recipe.toolchains[0])
    (module,) = sources.modules.values()

    def wanted(options: str = "") -> load.Compilation:
        return load.Compilation.of(module, sources, {"GPUFORGE_OPENCL_OPTIONS": options})

    plain, other = wanted(), wanted("-cl-fast-relaxed-math -DN=1")
    here = device("a CPU", CPU)
    assert other.key(here).options == ("-cl-fast-relaxed-math", "-DN=1")
    digests = {plain.key(here).digest, other.key(here).digest}
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
    digests.add(plain.key(here).digest)
    assert len(digests) == 3
    assert [wanted(options).use_cache for options in ("", "-DI=1", "-I/tmp", "-I /tmp")] == [
        True,
        True,
        False,
        False,
    ]
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-I/tmp")
    assert not wanted().use_cache


class Buffer:
    """Stands in for memory of a device."""

    def __init__(self, _home: Any, size: int, _kernel: Any) -> None:
        self.content = bytearray(size)

    def copy_in(self, array: HostArray) -> None:
        self.content[:] = array.bytes() if array.size else b""

    def copy_out(self, array: HostArray, stream: Any) -> None:
        assert stream == "queue"
        if array.size:
            array.bytes()[:] = self.content

    def free(self) -> None:
        self.content.clear()


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> kernel.Copies:
    monkeypatch.setattr(kernel, "OpenClMemory", Buffer)
    return kernel.Copies(SimpleNamespace())  # type: ignore[arg-type]


def add(copies: kernel.Copies, number: int, array: Any, written: bool = True) -> Any:
    found = host_array(array)
    assert found
    return copies.add(number, found, written=written)


@pytest.mark.parametrize("written", [(False, True), (True, False)])
def test_the_same_array_twice_is_one_copy(copies, written):
    array = np.arange(4.0)
    given = [add(copies, number, array.view(), each) for number, each in enumerate(written)]
    assert given[0] is given[1]
    other = add(copies, 2, np.zeros(4))
    assert other is not given[0]
    given[0].content[:] = np.full(4, 5.0).tobytes()
    copies.read_back("queue")
    assert (array == 5).all()
    copies.free()


def test_an_array_that_is_only_read_is_not_copied_back(copies):
    array = np.arange(4.0)
    add(copies, 0, array, False).content[:] = bytes(32)
    copies.read_back("queue")
    assert list(array) == [0, 1, 2, 3]


@pytest.mark.parametrize("written", ["both", "first", "second"])
def test_arrays_that_overlap_otherwise_are_refused(copies, written):
    array = np.arange(6.0)
    add(copies, 0, np.zeros(3))
    add(copies, 1, array[:4], written != "second")
    with pytest.raises(
        ValueError, match=r"^arguments 1 and 2 overlap in memory, and one of them can be written: "
    ):
        add(copies, 2, array[2:], written != "first")


@pytest.mark.parametrize("third", [slice(0, 4), slice(0, 5)])
def test_a_third_array_may_make_an_overlap_one_that_is_refused(copies, third):
    array = np.arange(6.0)
    add(copies, 0, array[:4], False)
    add(copies, 1, array[2:], False)  # nobody writes: two copies
    with pytest.raises(ValueError, match=r"^arguments [01] and 2 overlap"):
        add(copies, 2, array[third])


def test_neighbours_and_empty_arrays_do_not_overlap(copies):
    array = np.arange(6.0)
    parts = (array[:3], array[3:], array[2:2], array[2:2], array[2:][:0])  # the last begins within the first
    given = [add(copies, n, part) for n, part in enumerate(parts)]
    assert len(set(map(id, given))) == 5
    given[0].content[:] = np.full(3, 9.0).tobytes()
    copies.read_back("queue")
    assert list(array) == [9, 9, 9, 3, 4, 5]


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int))


KERNELS = """
typedef struct { float a; int b; } pair;
kernel void scale(global float4 *x, ulong n, float a) { for (ulong i = 0; i < n; i++) x[i] *= a; }
kernel void same(ulong n, float a, global float *x) { for (ulong i = 0; x && i < n; i++) x[i] *= a; }
kernel void sum(const global float *x, pair p, global float *y, local float *scratch)
{
    *scratch = p.a + p.b;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; i++) *y += x[i] + *scratch;
}
"""


@pytest.fixture(scope="module")
def program(pocl: None) -> Any:
    import pyopencl

    context = context_of(pyopencl.get_platforms()[0].get_devices()[0])
    return context, pyopencl.Program(context.context, KERNELS).build(["-cl-kernel-arg-info"], cache_dir=False)


@pytest.fixture
def scale(program: Any) -> OpenClKernel:
    return OpenClKernel("scale", "k.cl", *program)


@pytest.fixture
def sum_(program: Any) -> OpenClKernel:
    return OpenClKernel("sum", "k.cl", *program)


ONE, TWO = np.uint64(1), np.float32(2)


@pytest.mark.thorough
def test_what_fits_the_parameters_of_a_kernel_is_passed(scale, sum_):
    import pyopencl
    import pyopencl.array

    x = np.ones((2, 2), "f4", order="F")
    scale.launch(1, 1, x, ONE, TWO)
    scale.launch(1, 1, x, np.int64(1), ctypes.c_float(2), stream=scale._context.queue)
    assert (x == 4).all()
    on_device = pyopencl.array.to_device(scale._context.queue, np.ones(4, "f4"))
    scale.launch(1, 1, on_device, ctypes.c_ulong(1), TWO)
    assert (on_device.get() == 2).all()
    y = bytearray(4)
    x.flags.writeable = False
    sum_.launch(1, 1, x, Pair(0.5, 1), y, pyopencl.LocalMemory(4))
    assert np.frombuffer(y, "f4") == 22
    with sum_.upload(np.ascontiguousarray(x)) as memory:
        sum_.launch(1, 1, memory, Pair(0.5, 1), y, pyopencl.LocalMemory(4))
    assert np.frombuffer(y, "f4") == 44


@pytest.mark.thorough
def test_what_a_parent_has_opened_is_an_error_in_a_fork(scale, monkeypatch):
    memory = scale.upload(np.ones(4, "f4"))
    again = scale.bind(1, 1, memory, ONE, TWO)
    monkeypatch.setattr(scale._context, "_pid", -1)
    for use in (again, lambda: memory.read(bytearray(16))):
        with pytest.raises(DriverError, match="start workers with 'spawn'"):
            use()


def freed(kernel: OpenClKernel) -> OpenClMemory:
    memory = kernel.memory(16)
    memory.free()
    memory.free()
    return memory


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def sampler(kernel: OpenClKernel) -> Any:
    import pyopencl as cl

    return cl.Sampler(kernel._context.context, True, cl.addressing_mode.NONE, cl.filter_mode.NEAREST)


def read_only_buffer(kernel: OpenClKernel) -> Any:
    import pyopencl as cl

    return cl.Buffer(kernel._context.context, cl.mem_flags.READ_ONLY, 16)


ONES = np.ones(4, "f4")
MISUSES: dict[str, tuple[Any, ...]] = {
    "half the floats": (lambda _: np.ones(8, "f2"), ONE, TWO),
    "doubles": (lambda _: np.ones(2), ONE, TWO),
    "a read-only array": (lambda _: read_only(np.ones(4, "f4")), ONE, TWO),
    "bytes": (lambda _: bytes(16), ONE, TWO),
    "objects": (lambda _: np.array([None, 1]), ONE, TWO),
    "another byte order": (lambda _: np.ones(4, ">f4"), ONE, TWO),
    "gaps": (lambda _: np.ones(8, "f4")[::2], ONE, TWO),
    "freed memory": (freed, ONE, TWO),
    "an address": (lambda _: ctypes.c_void_p(8), ONE, TWO),
    "a number for a pointer": (lambda _: np.uint64(8), ONE, TWO),
    "an int for a pointer": (lambda _: 8, ONE, TWO),
    "a list": (lambda _: [1.0], ONE, TWO),
    "None": (lambda _: None, ONE, TWO),
    "local memory for a pointer": (lambda _: __import__("pyopencl").LocalMemory(4), ONE, TWO),
    "a queue": (lambda kernel: kernel._context.queue, ONE, TWO),
    "a sampler": (sampler, ONE, TWO),
    "a buffer for a number": (lambda _: ONES, lambda kernel: kernel.memory(8), TWO),
    "an int for a float": (lambda _: ONES, ONE, np.int32(2)),
    "a double for a float": (lambda _: ONES, ONE, np.float64(2)),
    "a Python float": (lambda _: ONES, ONE, 2.0),
    "a negative number": (lambda _: ONES, np.int64(-1), TWO),
    "a struct of NumPy": (lambda _: ONES, ONE, np.zeros(1, "i4,f4")[0]),
    "a number of too many bytes": (lambda _: ONES, ONE, np.longdouble(1)),
    "an argument is missing": (lambda _: ONES, ONE),
    "a stream of text": (lambda _: ONES, ONE, TWO, {"stream": "mine"}),
    "a stream of a number": (lambda _: ONES, ONE, TWO, {"stream": 0}),
    "shared memory": (lambda _: ONES, ONE, TWO, {"shared": 64}),
    "a grid of 0": (lambda _: ONES, ONE, TWO, {"grid": 0}),
    "a large block": (lambda _: ONES, ONE, TWO, {"block": 1 << 20}),
    "a block of many threads": (lambda _: ONES, ONE, TWO, {"block": (1024, 64)}),
    "a grid that no device ends": (lambda _: ONES, ONE, TWO, {"grid": (2**31 - 1,) * 3}),
    "a read-only buffer": (read_only_buffer, ONE, TWO),
}


@pytest.mark.thorough
def test_misuses_are_errors(scale, sum_):
    found = []
    for name, (x, *others) in MISUSES.items():
        options = others.pop() if isinstance(others[-1], dict) else {}
        try:
            rest = [each(scale) if callable(each) else each for each in others]
            scale.launch(options.pop("grid", 1), options.pop("block", 1), x(scale), *rest, **options)
        except (TypeError, ValueError) as error:
            found.append(f"{name}\n    {type(error).__name__}: {error}\n")
        else:
            found.append(f"{name}\n    no error\n")
    for name, scratch in {
        "an array for local memory": ONES,
        "nothing for local memory": ctypes.c_void_p(),
    }.items():
        with pytest.raises(TypeError) as caught:
            sum_.launch(1, 1, ONES, Pair(1, 1), ONES, scratch)
        found.append(f"{name}\n    TypeError: {caught.value}\n")
    for name, pair in {
        "an array for a struct": np.ones(2, "f4"),
        "memory for a struct": sum_.memory(8),
    }.items():
        with pytest.raises(TypeError) as caught:
            sum_.launch(1, 1, ONES, pair, ONES, ctypes.c_void_p())
        found.append(f"{name}\n    TypeError: {caught.value}\n")
    golden.hold("opencl-misuses.txt", "".join(found).replace(scale._context.name, "DEVICE"))
    assert (ONES == 1).all()


@pytest.mark.thorough
def test_the_misuses_of_a_kernel_for_the_cpu_are_errors(program):
    kernel = OpenClKernel("same", "k.cl", *program)
    found = {name: host_misuses.outcome(misuse, kernel) for name, misuse in host_misuses.MISUSES.items()}
    assert bytes(range(8)) == host_misuses.BYTES
    assert {name for name, text in found.items() if text.startswith("no error")} == {
        "an array resized after bind",  # each launch reads its arguments
        "a buffer resized after bind",
        "a union",  # structs are copied, byte by byte
        "a struct of bit fields",
        "types: a struct for a float",
        "memory made larger",
    }


@pytest.mark.thorough
def test_a_fork_looks_up_no_device(scale, monkeypatch):
    monkeypatch.setattr(back_end, "_devices", {-1: []})
    assert back_end.find({}, ANY) == Reason("forked")


@pytest.mark.thorough
def test_memory_is_copied_from_and_into_one_block(scale):
    memory = scale.memory(16)
    for copy in (memory.write, memory.read):
        with pytest.raises(ValueError, match="in C's order"):
            copy(np.ones((2, 2), "f4", order="F"))
    with pytest.raises(ValueError, match=r"^bytes is read-only"):
        memory.read(bytes(16))
    with pytest.raises(ValueError, match=r"^the memory was freed"):
        freed(scale).read(bytearray(16))


@pytest.mark.thorough
def test_without_the_types_of_parameters_only_their_number_is_known(program):
    import pyopencl

    context, _ = program
    source = "kernel void only(global float *x) { *x = 3; }"
    kernel = OpenClKernel(
        "only", "k.cl", context, pyopencl.Program(context.context, source).build(cache_dir=False)
    )
    if "float" in kernel._entry.signature:
        pytest.skip("this OpenCL tells the types without being asked to")
    x = np.ones(1, "f4")
    kernel.launch(1, 1, x)
    assert x == 3
    with pytest.raises(TypeError, match=r"^only\(any type\) takes 1 argument, and 2 are given$"):
        kernel.launch(1, 1, x, x)


def test_an_error_has_its_kernel_its_source_and_its_device():
    error = DriverError("clFinish", -5, "OUT_OF_RESOURCES", "failed", kernel="f", source="k/f.cl", device="D")
    assert str(error) == "clFinish failed: OUT_OF_RESOURCES (-5): failed\nkernel f of k/f.cl, on D"
    assert (error.kernel, error.source, error.device) == ("f", "k/f.cl", "D")
    assert str(DriverError("cuInit", 1, "X", "failed")) == "cuInit failed: X (1): failed"


def test_a_failed_allocation_is_not_the_last_kernels_fault(scale):
    scale.launch(1, 1, np.ones(1, "f4"), np.uint64(1), TWO)
    with pytest.raises(DriverError) as caught:
        scale.memory(1 << 60)
    error = caught.value
    assert (error.code, error.name, error.kernel) == (-61, "INVALID_BUFFER_SIZE", "")
    assert error.advice == "free arrays on the device, or compute in parts"
    assert f"{1 << 60} bytes are requested, and a buffer there can have" in error.log


def test_a_status_has_a_meaning_and_only_late_faults_are_of_the_last_kernel(scale):
    import pyopencl

    scale.launch(1, 1, np.ones(1, "f4"), np.uint64(1), TWO)
    memory = scale.memory(4)
    for code, blamed, text in (
        (-5, "scale", "OUT_OF_RESOURCES (-5): the device has no resources left, or a kernel used memory"),
        (-34, "", "INVALID_CONTEXT (-34): the parts belong to several contexts"),
    ):
        record = SimpleNamespace(
            what=lambda: "", code=lambda code=code: code, routine=lambda: "clEnqueueReadBuffer"
        )
        error = pyopencl.Error(record)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pyopencl, "enqueue_copy", Raising(error))
            with pytest.raises(DriverError) as caught:
                memory.read(bytearray(4))
        assert (caught.value.code, caught.value.kernel) == (code, blamed)
        assert str(caught.value).startswith(f"clEnqueueReadBuffer failed: {text}")
        assert caught.value.advice
        assert "object at" not in str(caught.value)


class Raising:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self.error


@pytest.mark.thorough
def test_a_kernel_runs_in_the_queue_of_its_arrays_and_in_their_order(scale):
    """An event of the test holds the first operation back: what does not wait for it has other numbers."""
    import pyopencl
    import pyopencl.array

    context, two = scale._context.context, np.uint64(2)
    queues = [pyopencl.CommandQueue(context) for _ in range(3)]
    gate = pyopencl.UserEvent(context)
    x = pyopencl.array.to_device(queues[0], np.ones(8, "f4"))
    x.add_event(pyopencl.enqueue_fill_buffer(queues[0], x.base_data, np.float32(5), 0, 32, wait_for=[gate]))
    scale.launch(1, 1, x, two, TWO)
    x.queue = queues[1]
    scale.launch(1, 1, x, two, TWO)
    scale.launch(1, 1, x, two, TWO, stream=queues[2])
    gate.set_status(pyopencl.command_execution_status.COMPLETE)
    assert x.get().tolist() == [40.0] * 8
    result = np.zeros(8, "f4")
    with scale.upload(np.ones(8, "f4")) as memory:
        gate = pyopencl.UserEvent(context)
        pyopencl.enqueue_marker(queues[1], wait_for=[gate])
        scale.launch(1, 1, memory, two, TWO, stream=queues[1])
        scale.launch(1, 1, memory, two, TWO)
        gate.set_status(pyopencl.command_execution_status.COMPLETE)
        memory.read(result)
    assert result.tolist() == [4.0] * 8
