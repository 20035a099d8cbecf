"""Kernels on the CPU: what Python may hand over computes the right numbers, and all else is an error."""

import ctypes
import mmap
import re
import shutil
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden
import host_misuses
import numpy as np
import pytest
from dlpack_samples import Capsuled
from host_misuses import A, N, floats, read_only
from runtime_samples import write_set

from gpuforge.runtime import KernelSet, signature
from gpuforge.runtime.backends.opencl.kernel import Limits
from gpuforge.runtime.backends.system import HostKernel, load
from gpuforge.runtime.signature import Parameter, host_array, plain_entry

KERNELS = """\
#include <time.h>
void wait_and_fill(unsigned milliseconds, unsigned long long n, unsigned char *x)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&time, 0);
    while (n) x[--n] = 7;
}
void mark(void *x, int *was_null) { *was_null = !x; }
typedef struct { float a; int b[2]; } pair;
void sum(pair p, double *x) { *x = p.a + p.b[0] + p.b[1]; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile kernels for the CPU")
    folder = tmp_path_factory.mktemp("host")
    (folder / "kernels.c").write_text(host_misuses.SOURCE + KERNELS)
    target = folder / "kernels.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", folder / "kernels.c", "-o", target], check=True)
    return target


@pytest.fixture
def kernel(library: Path) -> HostKernel:
    return load(str(library), plain_entry("scale"), "no NVIDIA driver")


def test_every_misuse_is_an_error_and_changes_nothing(library, capsys):
    host_misuses.main(str(library))
    golden.hold("host-misuses.txt", capsys.readouterr().out.replace(str(library), "LIBRARY"))


@pytest.mark.thorough
def test_a_process_survives_all_misuses(library):
    program = [sys.executable, "-X", "faulthandler", host_misuses.__file__, str(library)]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    golden.hold("host-misuses.txt", ended.stdout.replace(str(library), "LIBRARY"))


class Subclass(np.ndarray):
    """An array whose own attributes are wrong."""

    @property
    def flags(self) -> Any:
        raise AssertionError("it is not read")


def of_floats(make: Callable[[bytes], Any]) -> Any:
    return make(np.ones(2, "f4").tobytes())


def mapped(content: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(content))
    memory[:] = content
    return memory


ARRAYS: dict[str, Callable[[], Any]] = {
    "NumPy": floats,
    "a subclass": lambda: floats().view(Subclass),
    "a column": lambda: floats().reshape(2, 1),
    "Fortran's order": lambda: np.ones((2, 1, 1), "f4", order="F"),
    "a part": lambda: floats(6)[2:4],
    "a struct": lambda: np.array([(1, 1)], [("a", "f4"), ("b", "f4")]),
    "array": lambda: array("f", [1, 1]),
    "bytearray": lambda: of_floats(bytearray),
    "a view": lambda: memoryview(of_floats(bytearray)),
    "mmap": lambda: of_floats(mapped),
    "an array of ctypes": lambda: (ctypes.c_float * 2)(1, 1),
    "a buffer of ctypes": lambda: ctypes.create_string_buffer(np.ones(2, "f4").tobytes(), 8),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_what_can_be_written_is_passed_by_its_address(kernel, make):
    x = make()
    kernel.launch(1, 1, N, A, x)
    again = kernel.bind(np.int64(1), (np.uint8(1),), N, A, x, shared=0, stream=7)
    again()
    again()
    assert list(np.frombuffer(memoryview(x).cast("B"), "f4")) == [8, 8]


def test_pointers_structs_and_null_are_passed_as_they_are(kernel, library):
    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int * 2))

    x = (ctypes.c_float * 2)(1, 1)
    address = ctypes.addressof(x)
    for pointer in (
        ctypes.pointer(x),
        ctypes.c_void_p(address),
        ctypes.cast(x, ctypes.POINTER(ctypes.c_float)),
    ):
        kernel.launch(1, 1, N, A, pointer)
    assert list(x) == [8, 8]
    was_null = ctypes.c_int(0)
    for null in (ctypes.c_void_p(None), ctypes.POINTER(ctypes.c_float)(), ctypes.c_char_p(None)):
        was_null.value = 0
        load(str(library), plain_entry("mark")).launch(1, 1, null, ctypes.pointer(was_null))
        assert was_null.value == 1
    total = np.zeros(())
    load(str(library), plain_entry("sum")).launch(1, 1, Pair(0.5, (2, 3)), total)
    assert total == 5.5, "an array without axes has one element"


@pytest.mark.parametrize(
    "empty", [np.ones(0, "f4"), np.ones((3, 0)), b"", bytearray(), (ctypes.c_float * 0)()]
)
def test_an_empty_array_may_be_read_only(kernel, empty):
    kernel.launch(1, 1, np.uint64(0), A, empty)
    with kernel.upload(empty) as memory:
        assert memory.size == 0
        memory.read(empty)


def test_a_temporary_array_lives_as_long_as_the_call(library):
    fill = load(str(library), plain_entry("wait_and_fill"))
    memory = fill.memory(1 << 16)
    content = memory.content()
    thread = threading.Thread(target=memory.free)
    timer = threading.Timer(0.02, thread.start)
    timer.start()
    fill.launch(1, 1, np.uint32(60), np.uint64(1 << 16), memory)
    timer.join()
    assert bytes(content) == b"\7" * (1 << 16), "freed in another thread meanwhile"
    x = bytearray(1 << 16)

    def resize() -> None:
        with pytest.raises(BufferError):
            x.clear()

    timer = threading.Timer(0.02, resize)
    timer.start()
    fill.launch(1, 1, np.uint32(60), np.uint64(1 << 16), x)
    timer.join()
    assert x == b"\7" * (1 << 16)


def on_the_cpu(values: Any, **changed: Any) -> Capsuled:
    return Capsuled(values.ctypes.data, device=1, kept=values, **changed)


def test_arrays_of_dlpack_are_read_with_their_type_and_whether_they_may_be_written(kernel):
    values = floats(6)
    kernel.launch(1, 1, np.uint64(6), A, on_the_cpu(values))
    kernel.launch(1, 1, np.uint64(6), A, on_the_cpu(values, version=(1, 0)))
    assert list(values) == [4] * 6
    for flags in (1, 2):  # read-only, and a copy
        with pytest.raises(
            ValueError, match=r"^argument 2: Capsuled of float32 with shape \(3, 2\) is read-only"
        ):
            kernel.launch(1, 1, N, A, on_the_cpu(values, version=(1, 0), flags=flags))
    with pytest.raises(TypeError, match=r"^argument 2: Capsuled has elements that have no C type$"):
        kernel.launch(1, 1, N, A, on_the_cpu(values, code=3))
    with kernel.upload(on_the_cpu(values)) as memory:
        read = floats(6)
        memory.read(read)
    assert list(read) == [4] * 6
    with pytest.raises(ValueError, match=r"strides \(4, 12\) is not one block of memory in C's order"):
        kernel.upload(on_the_cpu(values, strides=(1, 3)))


def test_an_array_without_a_format_is_read_by_dlpack(kernel, monkeypatch):
    def refuse(value: object) -> memoryview:
        raise BufferError("no format for bfloat16")

    monkeypatch.setattr(signature, "memoryview", refuse, raising=False)
    values = floats(6)
    kernel.launch(1, 1, np.uint64(6), A, on_the_cpu(values))
    assert list(values) == [2] * 6
    with pytest.raises(
        TypeError, match=r"^argument 2: object does not give its memory: no format for bfloat16$"
    ):
        kernel.launch(1, 1, np.uint64(6), A, object())


def test_types_are_named_as_numpy_names_them():
    named = {
        "<f4": floats(),
        "|u1": np.ones(1, "u1"),
        "<i8": array("q", [1]),
        "<u4": (ctypes.c_uint * 1)(),
        "|V8": ARRAYS["a struct"](),
        "<c16": memoryview(np.ones(1, "c16")),
        "": bytearray(1),
        "|b1": np.ones(1, bool),
        "<u2": memoryview(array("H", [1])),
    }
    found = [host_array(value) for value in named.values()]
    assert [one and one.dtype for one in found] == list(named)
    assert host_array(3) is None


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (4096, "block (4096, 1, 1): its axis x is 4096, and the most of DEVICE is 1024"),
        ((1, 1, 65), "block (1, 1, 65): its axis z is 65, and the most of DEVICE is 64"),
        ((1024, 2), "block (1024, 2, 1): it has 2048 threads, and the most of DEVICE is 1024"),
    ],
)
def test_the_limit_of_a_device_is_named(block, message):
    limits = Limits("DEVICE", (1024, 1024, 64), 1024, 2**64 - 1)
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole message is compared
        limits.check((1, 1, 1), signature.three(block))
    assert str(error.value) == message
    limits.check((1, 1, 1), (16, 1, 64))
    message = "block (1, 1, 1): with grid (8589934592, 8589934592, 1) there are 73786976294838206464 threads"
    with pytest.raises(ValueError, match=re.escape(message)):
        limits.check((1 << 33, 1 << 33, 1), (1, 1, 1))


def test_a_read_only_array_may_be_copied_from(kernel):
    with kernel.upload(read_only(floats())) as memory:
        kernel.launch(1, 1, N, A, memory)
        x = floats()
        memory.read(x)
        memory.write(bytes(8))
    assert list(x) == [2, 2]


def test_what_fits_the_parameters_types_is_passed(kernel):
    typed = HostKernel(host_misuses.TYPED, kernel._function)
    x = floats()
    for count in (N, np.int64(2), np.longlong(2), ctypes.c_size_t(2), ctypes.c_long(2)):
        for factor in (A, ctypes.c_float(2)):
            typed.launch(1, 1, count, factor, x)
    assert list(x) == [1024, 1024]
    for pointer in (ctypes.c_void_p(None), ctypes.POINTER(ctypes.c_float)(), typed.upload(x), bytearray(8)):
        typed.launch(1, 1, N, A, pointer)


@pytest.mark.parametrize(
    "type_", ["const float *", "const float *__restrict__", "float const *const", "const void *"]
)
def test_a_read_only_array_is_passed_to_a_kernel_that_only_reads(kernel, type_):
    parameters = (*host_misuses.TYPED.parameters[:2], Parameter(type_, 8))  # type: ignore[index]
    reading = HostKernel(host_misuses.TYPED._replace(parameters=parameters), kernel._function)
    for x in (read_only(floats()), host_misuses.BYTES, ctypes.c_char_p(host_misuses.BYTES)):
        reading.launch(1, 1, np.uint64(0), A, x)


def test_a_character_fits_a_byte_of_either_sign(kernel):
    for type_ in ("char", "unsigned char", "signed char"):
        parameters = (Parameter("unsigned long long", 8), Parameter(type_, 1), Parameter("float *", 8))
        typed = HostKernel(host_misuses.TYPED._replace(parameters=parameters), kernel._function)
        typed.launch(1, 1, np.uint64(0), ctypes.c_char(b"a"), floats())
        with pytest.raises(TypeError, match="argument 1: "):
            typed.launch(1, 1, np.uint64(0), ctypes.c_wchar("a"), floats())


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (True, TypeError, "a stream is a number or has __cuda_stream__, and bool is neither"),
        (-1, ValueError, "a stream is a CUstream, and -1 is negative"),
        ("0", TypeError, "a stream is a number or has __cuda_stream__, and str is neither"),
    ],
)
def test_what_is_no_stream_is_refused(kernel, stream, error, message):
    x = floats()
    with pytest.raises(error, match=f"^{message}$"):
        kernel.launch(1, 1, N, A, x, stream=stream)
    with kernel.upload(x) as memory, pytest.raises(error, match=f"^{message}$"):
        memory.read(x, stream=stream)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "0"}, "a device is a number from 0 on, not '0'"),
        ({"device": True}, "a device is a number from 0 on, not True"),
        ({"device": -1}, "a device is a number from 0 on, not -1"),
        (
            {"context": object()},
            'a context is "current", a CUcontext as a number, or an object with a handle, not ',
        ),
        ({"module": 5}, "a module's name is a str, not int"),
    ],
    ids=["text", "bool", "negative", "context", "module"],
)
def test_what_is_no_device_context_or_module_is_refused_also_without_a_gpu(tmp_path, options, message):
    kernels = KernelSet(write_set(tmp_path / "default-kernels"), env={"GPUFORGE_DISABLE_GPU": "1"})
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        kernels.function("saxpy", **options)
