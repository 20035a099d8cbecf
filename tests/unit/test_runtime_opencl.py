"""OpenCL's devices and arguments, with a stand-in: which devices are taken, what enters a key, which arrays overlap."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from set_samples import OPENCL_C, install_set

from gpuforge.runtime import DriverError, KernelSet, KernelUnavailable, machine
from gpuforge.runtime.backends.opencl import devices, load, memory
from gpuforge.runtime.backends.opencl.devices import Needs
from gpuforge.runtime.backends.opencl.kernel import OpenClKernel
from gpuforge.runtime.reason import Reason
from gpuforge.runtime.recipe import read

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
    monkeypatch.setattr(devices, "_devices", {})


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
def test_the_devices_that_the_user_and_the_package_allow(value: str, needs: Needs, expected: Any) -> None:
    found = devices.devices({"GPUFORGE_OPENCL": value}, needs)
    assert (str(found) if isinstance(found, Reason) else [each.name for each in found]) == expected


@pytest.mark.usefixtures("opencl")
def test_no_device_of_the_kind_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pyopencl"], "get_platforms", lambda: [platform(device("a CPU", CPU))])
    found = devices.devices({"GPUFORGE_OPENCL": "gpu"}, ANY)
    assert str(found) == "GPUFORGE_OPENCL=gpu allows none of OpenCL's devices: a CPU"


@pytest.mark.parametrize(
    "env", [{"GPUFORGE_OPENCL": "0"}, {"GPUFORGE_DISABLE_GPU": "1"}, {"GPUFORGE_OPENCL": "x"}]
)
def test_what_is_switched_off_is_not_opened(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by a look-up nor by `explain`, which else opens the loader itself."""
    opened: list[str] = []
    monkeypatch.setattr(devices, "_look", opened.append)
    monkeypatch.setattr(
        machine, "open_library", lambda table: opened.append(table.what) or Reason("no-devices")
    )
    home = install_set(tmp_path / "site", OPENCL_C, cpu=False)
    kernels = KernelSet(home / "kernels" / "ops", package="demo", env=env, driver="libnothing.so")
    with pytest.raises(KernelUnavailable):
        kernels.function("saxpy")
    assert "refused" in kernels.explain()
    (variable,) = env
    assert (
        str(machine.libraries(env)["OpenCL"])
        == f"no OpenCL loader (switched off by {variable}={env[variable]})"
    )
    assert opened == ["NVML", "NCCL"]
    machine.libraries({})
    assert opened[2:] == ["NVML", "NCCL", "OpenCL loader"]


def test_a_recipe_restricts_the_devices(tmp_path: Path) -> None:
    from dataclasses import replace

    home = install_set(tmp_path / "site", replace(OPENCL_C, devices=("cpu",), extensions=(FP64,)), cpu=False)
    recipe = read(str(home / "sources" / "ops"))
    assert recipe
    assert load.needs_of(recipe.sources_of(recipe.toolchains[0])) == Needs(
        "pip install demo[opencl]", ("cpu",), (FP64,)
    )


def test_options_of_the_user_enter_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def __init__(self, _home: Any, size: int) -> None:
        self.content = bytearray(size)

    def write(self, array: Any) -> None:
        self.content[:] = memoryview(array).cast("B") if array.nbytes else b""

    def read(self, array: Any, *, stream: Any) -> None:
        assert stream == "queue"
        if array.nbytes:
            memoryview(array).cast("B")[:] = self.content

    def free(self) -> None:
        self.content.clear()


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> memory.Copies:
    monkeypatch.setattr(memory, "OpenClMemory", Buffer)
    return memory.Copies(SimpleNamespace())  # type: ignore[arg-type]


def read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("first_read_only", [True, False])
def test_the_same_array_twice_is_one_copy(copies: memory.Copies, first_read_only: bool) -> None:
    array = np.arange(4.0)
    views = [read_only(array), array] if first_read_only else [array, read_only(array)]
    given = [copies.add(number, view) for number, view in enumerate(views)]
    assert given[0] is given[1]
    other = copies.add(2, np.zeros(4))
    assert other is not given[0]
    given[0].content[:] = np.full(4, 5.0).tobytes()  # type: ignore[attr-defined]
    copies.read_back("queue")
    assert (array == 5).all()
    copies.free()


@pytest.mark.parametrize("writable", ["both", "first", "second"])
def test_arrays_that_overlap_otherwise_are_refused(copies: memory.Copies, writable: str) -> None:
    array = np.arange(6.0)
    first, second = array[:4], array[2:]
    copies.add(0, np.zeros(3))
    copies.add(1, read_only(first) if writable == "second" else first)
    with pytest.raises(
        ValueError, match=r"^arguments 1 and 2 overlap in memory, and one of them can be written: "
    ):
        copies.add(2, read_only(second) if writable == "first" else second)


def test_a_third_array_may_make_an_overlap_one_that_is_refused(copies: memory.Copies) -> None:
    array = np.arange(6.0)
    copies.add(0, read_only(array[:4]))
    copies.add(1, read_only(array[2:]))  # nobody writes: two copies
    with pytest.raises(ValueError, match="arguments 1 and 2 overlap"):
        copies.add(2, array[:4])


def test_neighbours_and_empty_arrays_do_not_overlap(copies: memory.Copies) -> None:
    array = np.arange(6.0)
    parts = (array[:3], array[3:], array[2:2], array[2:2], array[2:][:0])  # the last begins within the first
    given = [copies.add(n, part) for n, part in enumerate(parts)]
    assert len(set(map(id, given))) == 5
    given[0].content[:] = np.full(3, 9.0).tobytes()  # type: ignore[attr-defined]
    copies.read_back("queue")
    assert list(array) == [9, 9, 9, 3, 4, 5]
    with pytest.raises(TypeError, match="argument 7: a contiguous array is expected"):
        copies.add(7, array[::2])


def test_numbers_are_passed_as_they_are_and_structs_of_numpy_are_refused(copies: memory.Copies) -> None:
    """A struct was taken for an array, and its address passed where the kernel wants its bytes."""
    kernel = object.__new__(OpenClKernel)
    assert kernel._value(0, np.float32(1), copies) == np.float32(1)
    assert not copies
    struct = np.zeros(2, [("x", "i4"), ("y", "f4")])[0]
    with pytest.raises(
        TypeError, match=r"^argument 1: numpy.void is not a type that a kernel can have; write a ctypes"
    ):
        kernel._value(1, struct, copies)
    with pytest.raises(TypeError, match="argument 2: a Python float has no C type"):
        kernel._value(2, 1.0, copies)


def test_an_error_has_its_kernel_its_source_and_its_device() -> None:
    error = DriverError("clFinish", -5, "OUT_OF_RESOURCES", "failed", kernel="f", source="k/f.cl", device="D")
    assert str(error) == "clFinish failed: OUT_OF_RESOURCES (-5): failed\nkernel f of k/f.cl, on D"
    assert (error.kernel, error.source, error.device) == ("f", "k/f.cl", "D")
    assert str(DriverError("cuInit", 1, "X", "failed")) == "cuInit failed: X (1): failed"
